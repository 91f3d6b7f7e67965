package observe

import "time"

// Stats describe a client at one moment: which leases it holds, which of its calls
// wait, and what it has done so far. They are for a quick look, see package debug,
// and for gauges. For everything else, see [Event].
type Stats struct {
	Client string // the id of the client, see its method ID

	Leases  []LeaseStats // the locks and permits that the client holds, the oldest first
	Calls   []CallStats  // the calls that have waited for a second or longer, the oldest first
	Waiting int          // how many calls wait, also those that have just begun to

	// What the client has done since it was opened.
	Grants   uint64 // locks that the server has granted
	Handoffs uint64 // locks that were passed on inside the process
	Failures uint64 // calls that did not get what they wanted
	Losses   uint64 // leases that were lost
	Renewals uint64 // leases that were renewed or verified

	// FailedRenewals is how many renewals have failed. A lease is lost only if its
	// renewals fail until it expires.
	FailedRenewals uint64

	// RenewalAge is the time since the server has confirmed the renewed lease whose
	// confirmation is the oldest. It is normally below Options.RenewEvery.
	RenewalAge time.Duration

	// RenewalOverdue says how close a lease is to its loss because it is not renewed, at
	// most: 0 until its renewal is due, and 1 when it is lost. Each lease counts with its
	// own timeout.
	RenewalOverdue float64

	PendingReleases int // releases that the server has not confirmed yet

	// Subscriptions is the number of channels that the client listens to, and Silent
	// is how many of them receive no messages at the moment.
	Subscriptions, Silent int

	// Outages is the number of servers that are unavailable at the moment, see
	// holdfast.ErrUnavailable. It is counted only if the client has observers.
	Outages int

	DroppedEvents  uint64 // events that an observer did not receive, because it was too slow
	DroppedRecords uint64 // the same, for log records
}

// A Client is a *holdfast.Client.
type Client interface {
	ID() string
	Stats() Stats
}

// A Watcher is an [Observer] that also reads the statistics of its clients, for gauges.
// The function holdfast.New calls Watch for each of the Options.Observers that is a Watcher.
// The method Close of the client calls the function that Watch has returned.
type Watcher interface {
	Watch(Client) (stop func())
}

// LeaseStats describe a held lock, or held permits.
type LeaseStats struct {
	Kind, Name string
	Owner      string
	Since      time.Time     // when it was granted
	Age        time.Duration // the time since the server has confirmed it
	Left       time.Duration // the time until it expires, unless it is renewed
}

// CallStats describe a call that waits.
type CallStats struct {
	Kind, Name string
	Since      time.Time
}
