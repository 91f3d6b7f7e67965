package dashboard

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
)

const (
	remembered = 15 * time.Minute // how far the history goes back
	bucketTime = 5 * time.Second
	buckets    = int(remembered / bucketTime)
	maxSpans   = 200_000 // of all locks together
	mostSpans  = 200     // of one lock
	leastSpans = 4
	maxLocks   = 100_000 // with a history
)

// A history is what the snapshots of the last minutes have shown.
type history struct {
	mu     sync.Mutex
	locks  map[string]*timeline
	ring   [buckets]bucket
	pauses []pause // when the scanner did not run, in their order
}

// A pause is a time in which the scanner did not run.
type pause struct{ from, to time.Time }

const mostPauses = 100

// A timeline is the history of one lock.
type timeline struct {
	spans []span // in the order of their start
	seen  time.Time
}

// A span is a time in which a lock was held by one owner.
type span struct {
	owner    string
	mode     inspect.Mode
	client   *inspect.Client
	from, to time.Time
	open     bool // it is held in the last snapshot
	earlier  bool // it may have begun before
}

// A bucket sums up the snapshots of a few seconds.
type bucket struct {
	at       int64 // the number of the bucket since the epoch
	scans    int
	handoffs int
	held     int
	waiting  int
	longest  time.Duration
	over     time.Duration // the time that the snapshots cover
}

// add adds a snapshot that follows last, which may be nil. It completes the times in
// the snapshot.
func (h *history) add(last, p *snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := last == nil || last.partial
	exact := !first && p.at.Sub(last.at) <= max(5*time.Second, 3*last.every) // else the scanner has paused
	b := h.bucket(p.at)
	b.scans++
	b.held, b.waiting, b.longest = 0, 0, 0
	if exact {
		b.over += min(p.at.Sub(last.at), bucketTime)
	}
	if !first && !exact {
		h.pauses = append(h.pauses, pause{last.at, p.at})
		h.pauses = slices.Delete(h.pauses, 0, max(len(h.pauses)-mostPauses, 0))
	}
	limit := min(max(maxSpans/max(len(p.locks), 1), leastSpans), mostSpans)
	for _, l := range p.locks {
		var before *state
		if last != nil {
			before = last.byName[l.Name]
		}
		l.after(before, exact)
		b.handoffs += h.note(l, before, p.at, exact, limit)
		if len(l.Holders) > 0 {
			b.held++
		}
		b.waiting += l.waiting()
		if at := l.longest(); !at.IsZero() {
			b.longest = max(b.longest, p.at.Sub(at))
		}
	}
	for name, t := range h.locks {
		switch {
		case p.byName[name] == nil && p.complete:
			t.close(p.at, exact)
			fallthrough
		default:
			if p.at.Sub(t.seen) > remembered || len(h.locks) > maxLocks && p.byName[name] == nil {
				delete(h.locks, name)
			}
		}
	}
}

// read adds the state of one lock that was read between two snapshots.
func (h *history) read(l, before *state) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	l.after(before, true)
	h.bucket(now).handoffs += h.note(l, before, now, true, mostSpans)
}

// note adds the holders of a lock to its timeline. It returns how many owners have
// taken over from others since the last snapshot, if that is known.
func (h *history) note(l, before *state, at time.Time, exact bool, limit int) (handoffs int) {
	t := h.locks[l.Name]
	if t == nil {
		t = new(timeline)
		h.locks[l.Name] = t
	}
	t.seen = at
	for i := range t.spans {
		s := &t.spans[i]
		if s.open && l.holder(s.owner, s.mode) < 0 {
			s.close(at, exact)
		}
	}
	for i, holder := range l.Holders {
		j := slices.IndexFunc(t.spans, func(s span) bool { return s.open && s.owner == holder.Owner && s.mode == holder.Mode })
		if j >= 0 {
			t.spans[j].to = at
			if holder.Client.Known() {
				t.spans[j].client = holder.Client
			}
			continue
		}
		if exact && before != nil && len(before.Holders) > 0 && before.holder(holder.Owner, holder.Mode) < 0 {
			handoffs++
		}
		t.spans = append(t.spans, span{holder.Owner, holder.Mode, holder.Client, l.holds[i].since, at, true, l.holds[i].earlier})
	}
	t.spans = slices.DeleteFunc(t.spans, func(s span) bool { return at.Sub(s.to) > remembered })
	if extra := len(t.spans) - limit; extra > 0 {
		t.spans = slices.Delete(t.spans, 0, extra)
	}
	return handoffs
}

// close ends the spans of a lock that is free.
func (t *timeline) close(at time.Time, exact bool) {
	for i := range t.spans {
		if t.spans[i].open {
			t.spans[i].close(at, exact)
		}
	}
}

// close ends a span. If the scanner has paused, the span ends when it was last seen.
func (s *span) close(at time.Time, exact bool) {
	s.open = false
	if exact {
		s.to = at
	}
}

// bucket returns the bucket of a time.
func (h *history) bucket(at time.Time) *bucket {
	n := at.UnixNano() / int64(bucketTime)
	b := &h.ring[n%int64(buckets)]
	if b.at != n {
		*b = bucket{at: n}
	}
	return b
}

// of returns the history of a lock, and when the scanner did not run.
func (h *history) of(name string) (spans []span, pauses []pause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.locks[name]; t != nil {
		spans = slices.Clone(t.spans)
	}
	return spans, slices.Clone(h.pauses)
}

// series returns the buckets of the last minutes, the oldest first. A bucket without
// scans is empty.
func (h *history) series(now time.Time) []bucket {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]bucket, 0, buckets)
	last := now.UnixNano() / int64(bucketTime)
	for n := last - int64(buckets) + 1; n <= last; n++ {
		b := h.ring[n%int64(buckets)]
		if b.at != n {
			b = bucket{at: n}
		}
		list = append(list, b)
	}
	return list
}
