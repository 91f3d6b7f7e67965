// Package measure makes figures from the events and the statistics of clients. It is what
// the modules otel and prom have in common: which figures there are, what they are called,
// and which event changes which of them. A [Meter] computes them, and a [Backend] keeps
// them.
//
// The modules are released together with the library, but a program may use an older
// release of them. So a change of this package must not break the code that uses it.
package measure

import "strings"

// A Metric is one of the figures.
type Metric uint8

// The figures. [Figures] describes them.
const (
	WaitDuration Metric = iota
	HoldDuration
	Acquisitions
	Losses
	Deadlocks
	Warnings
	Held
	Waiting
	Renewals
	Verifications
	RenewalLateness
	RenewalOverdue
	LimiterPermits
	LimiterReturned
	SemaphorePermits
	SemaphoreReleased
	PendingReleases
	Outages
	OutageDuration
	OutagesActive
	SubscriptionLosses
	SubscriptionsSilent
	EventsDropped
	metrics // how many there are
)

// A Type is the type of a figure.
type Type uint8

// The types of figures. The values of a Sum and of a Gauge are read from the statistics of
// the clients. Values of several processes can be added if the figure is a Sum, but not if
// it is a Gauge.
const (
	Counter Type = iota
	Histogram
	Sum
	Gauge
)

// A Figure describes a [Metric].
type Figure struct {
	Name   string // in OpenTelemetry
	Type   Type
	Unit   string // "s", "1" for a ratio, or in braces what is counted
	Help   string
	Labels []string // the label "name" is used only if there is a function for it
}

// Prometheus returns the name of the figure in Prometheus. The exporters of OpenTelemetry
// choose the same name.
func (f Figure) Prometheus() string {
	name := strings.ReplaceAll(f.Name, ".", "_")
	switch f.Unit {
	case "s":
		name += "_seconds"
	case "1":
		name += "_ratio"
	}
	if f.Type == Counter {
		name += "_total"
	}
	return name
}

// Figures has the description of each [Metric].
var Figures = [metrics]Figure{
	WaitDuration: {
		"holdfast.lock.wait.duration", Histogram, "s",
		"How long calls took to get a lock or permits, or to fail.",
		[]string{"kind", "outcome", "name"},
	},
	HoldDuration: {
		"holdfast.lock.hold.duration", Histogram, "s",
		"How long leases were held, until they were released or lost.",
		[]string{"kind", "name"},
	},
	Acquisitions: {
		"holdfast.lock.acquisitions", Counter, "{call}",
		"Calls that wanted a lock or permits, by how they ended.",
		[]string{"kind", "outcome", "via", "name"},
	},
	Losses: {
		"holdfast.lock.losses", Counter, "{lease}",
		"Leases that were lost, by reason.",
		[]string{"kind", "reason", "name"},
	},
	Deadlocks: {
		"holdfast.deadlocks",
		Counter, "{deadlock}",
		"Deadlocks that a call of this process was part of. Each process counts them.", nil,
	},
	Warnings: {
		"holdfast.warnings", Counter, "{warning}",
		"Signs of bugs in the program, or of a machine that is too slow, by reason.",
		[]string{"reason"},
	},
	Held: {
		"holdfast.lock.held", Sum, "{lease}",
		"Locks that are held now, and leases on permits.",
		[]string{"kind", "name"},
	},
	Waiting: {
		"holdfast.lock.waiting", Sum, "{call}",
		"Calls that wait now.", nil,
	},
	Renewals: {
		"holdfast.renewals", Counter, "{lease}",
		"Leases that the watchdog wanted to renew, by whether the server has answered.",
		[]string{"outcome"},
	},
	Verifications: {
		"holdfast.verifications", Counter, "{lease}",
		"Leases that the server has confirmed after a failover or a restart.", nil,
	},
	RenewalLateness: {
		"holdfast.renewal.lateness", Histogram, "s",
		"How much later than planned renewals were confirmed.", nil,
	},
	RenewalOverdue: {
		"holdfast.renewal.overdue", Gauge, "1",
		"How close a lease is to its loss, at most: 0 until its renewal is due, 1 when it is lost.", nil,
	},
	LimiterPermits: {
		"holdfast.limiter.permits", Counter, "{permit}",
		"Permits that calls wanted from rate limiters, by how the calls ended.",
		[]string{"outcome", "name"},
	},
	LimiterReturned: {
		"holdfast.limiter.returned", Counter, "{permit}",
		"Permits that were given back to rate limiters.",
		[]string{"name"},
	},
	SemaphorePermits: {
		"holdfast.semaphore.permits", Counter, "{permit}",
		"Permits that calls wanted from semaphores, by how the calls ended.",
		[]string{"kind", "outcome", "name"},
	},
	SemaphoreReleased: {
		"holdfast.semaphore.released", Counter, "{permit}",
		"Permits of semaphores that were released.",
		[]string{"kind", "name"},
	},
	PendingReleases: {
		"holdfast.release.pending", Sum, "{release}",
		"Releases that the server has not confirmed yet.", nil,
	},
	Outages: {
		"holdfast.outages", Counter, "{outage}",
		"How often a server became unavailable.", nil,
	},
	OutageDuration: {
		"holdfast.outage.duration", Histogram, "s",
		"How long servers were unavailable. An outage counts when it has ended.", nil,
	},
	OutagesActive: {
		"holdfast.outage.active", Sum, "{server}",
		"Servers that are unavailable now.", nil,
	},
	SubscriptionLosses: {
		"holdfast.subscription.losses", Counter, "{loss}",
		"How often a client stopped receiving messages. Until they are restored, waiters poll.", nil,
	},
	SubscriptionsSilent: {
		"holdfast.subscription.silent", Sum, "{channel}",
		"Channels that a client listens to and that receive no messages now.", nil,
	},
	EventsDropped: {
		"holdfast.events.dropped", Counter, "{event}",
		"Events that are not in the counters and histograms, because they came too fast.", nil,
	},
}

// Buckets are the upper bounds of the buckets of all histograms, in seconds.
var Buckets = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300,
}
