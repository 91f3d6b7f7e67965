package holdfast

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// parts are the leases that a lease on several locks consists of. The lease is valid
// while enough of them are valid.
type parts struct {
	leases []*Lease
	need   int
	limit  time.Duration // for each server to answer; zero: none

	redlock *Redlock      // the Redlock that granted them; nil: none
	longest time.Duration // the longest lease of the Redlock; zero: any
}

// Parts returns the leases on each of several locks, in their order, for names and
// tokens. It returns nil for a lease on one lock.
func (l *Lease) Parts() []*Lease {
	if l.parts == nil {
		return nil
	}
	return slices.Clone(l.parts.leases)
}

// deadline returns the moment from which too few parts are valid.
func (p *parts) deadline() time.Duration {
	var few [8]time.Duration
	ends := few[:0]
	for _, l := range p.leases {
		ends = append(ends, l.deadline())
	}
	slices.Sort(ends)
	return ends[len(ends)-p.need]
}

// lost returns the part whose loss made the whole invalid, or nil.
func (p *parts) lost() *Lease {
	left := len(p.leases)
	for _, l := range p.leases {
		if l.why() != 0 {
			if left--; left < p.need {
				return l
			}
		}
	}
	return nil
}

// lostPart ends the context of the lease if too few parts are left.
func (l *Lease) lostPart() {
	l.mu.Lock()
	complete := l.cancel != nil || l.seen.Load() != nil
	l.mu.Unlock()
	if complete && l.parts.lost() != nil {
		l.end()
		l.observeLoss()
	}
}

// stragglerTime is the extra wait for the other parts once enough have succeeded.
const stragglerTime = 10 * time.Millisecond

// all calls f for all parts concurrently. It fails if too few calls succeed. Calls
// that do not return within the limit go on in the background.
func (p *parts) all(f func(*Lease) error) error {
	results := make(chan error, len(p.leases))
	for _, l := range p.leases {
		go func() { results <- f(l) }()
	}
	var limit <-chan time.Time
	if p.limit > 0 {
		timer := time.NewTimer(p.limit)
		defer timer.Stop()
		limit = timer.C
	}
	var errs []error
	good := 0
	for pending := len(p.leases); pending > 0; pending-- {
		select {
		case err := <-results:
			if err != nil {
				errs = append(errs, err)
			} else if good++; good == p.need && pending > 1 && p.limit > 0 {
				timer := time.NewTimer(stragglerTime)
				defer timer.Stop()
				limit = timer.C
			}
			continue
		case <-limit:
		}
		errs = append(errs, errSlow)
		break
	}
	if good >= p.need {
		return nil
	}
	return failure(errs)
}

// errSlow is the error of a part that did not answer within the limit.
var errSlow = fmt.Errorf("%w: no answer within the limit", ErrUnavailable)

// release releases all parts, lost ones too. Those on one server are released together,
// unless each server has a limit.
func (p *parts) release() error {
	for _, l := range p.leases {
		l.mu.Lock()
		l.done = true
		l.mu.Unlock()
	}
	if p.limit > 0 {
		return p.all((*Lease).release)
	}
	ds := make([]engine.Departure, len(p.leases))
	for i, l := range p.leases {
		ds[i] = engine.Departure{Hold: l.hold, User: (*lossHandler)(l), Renewed: l.renewed}
	}
	engine.ReleaseAll(ds)
	var errs []error
	for _, d := range ds {
		if d.Err != nil {
			errs = append(errs, d.Err)
		}
	}
	return failure(errs) // a set needs all of its parts
}

// failure returns the error of an operation, given those of the parts: that of a lost part
// if there is one.
func failure(errs []error) error {
	for _, err := range errs {
		if errors.Is(err, ErrLost) {
			return err
		}
	}
	return errors.Join(errs...)
}
