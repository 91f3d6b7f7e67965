package simulation_test

import (
	"cmp"
	"context"
	"crypto/sha1"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// A lease is what a user has got and not yet released.
type lease struct {
	*holdfast.Lease
	call  *call
	ctx   context.Context
	parts []part
	end   time.Duration   // by clock.Now, if it has a lease time and was not extended; otherwise 0
	lost  bool            // the judge knows that it is lost
	reads *holdfast.Lease // of a writer that reads, too; otherwise nil
}

// A part is what a lease has of one object.
type part struct {
	object *object
	kind   kind
	owners []*owner
}

// An owner is what the judge knows of an owner of an object, or of one permit of it.
type owner struct {
	id   string
	name string

	// until is when the last lease ends that a server has given it, by clock.Now. A
	// lease is never valid for longer, whatever the servers and their clocks do.
	until time.Duration

	// broken says why the latest master may not have the lease that it should have. It
	// is "" if the master keeps what was promised.
	broken   string
	bound    time.Duration // how long it may take until a holder is told, if its server answers
	gone     time.Time     // since when the latest master does not have the lease; zero if it has it
	ends     time.Duration // it was lost: the rest of its lease may pass unused
	most     time.Duration // until then at most, if it has a lease time; 0: without a limit
	kept     bool          // it stays after its release
	taken    bool          // a user has got it
	first    *call         // the call of that user
	passes   int           // how many other calls had it since: hand-offs
	left     bool          // its release was called
	entered  bool          // it was entered again
	stays    time.Time     // until then at most, if its release has succeeded
	least    time.Time     // it stays until then at least
	process  *process      // whose owner it is; nil: unknown
	number   int           // of the server, and of the client of that process
	forced   bool          // it was freed by force, and a copy of its request may have been granted after that
	denied   time.Time     // when the client was told that the owner does not hold the lock; zero if it was not
	late     bool          // one of its requests took long to arrive, or came twice
	released time.Time     // when a server has first executed its release
	again    bool          // after it came a request that its client does not wait for
	used     time.Time     // when a call or a lease of a user last used what it has
	server   *server       // that has granted it
	write    int           // by this write
	behind   bool          // a clock that is behind an earlier one has granted it
}

// An event is a line of the timeline. Most lines are never read, so they are formatted later.
// The arguments must not change.
type event struct {
	at     time.Duration
	format string
	args   []any
}

// randomID is the id of a client.
var randomID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// A failure is a promise that was broken.
type failure struct {
	promise string
	at      time.Duration
	text    string
}

// failf notes that a promise was broken. The caller holds w.mu.
func (w *world) failf(promise, format string, args ...any) {
	text := w.readable(fmt.Sprintf(format, args...))
	w.tracef("BROKEN, %s: %s", promise, text)
	w.failed = append(w.failed, failure{promise, time.Since(w.begun), text})
}

// tracef adds a line to the timeline. The caller holds w.mu.
func (w *world) tracef(format string, args ...any) {
	w.trace = append(w.trace, event{time.Since(w.begun), format, args})
}

// readable returns a text with short names for clients.
func (w *world) readable(text string) string {
	return randomID.ReplaceAllStringFunc(text, func(id string) string {
		if p, i := w.processOf(id); p != nil && len(p.clients) > 1 {
			return fmt.Sprintf("c%d.%d", p.number, i)
		} else if p != nil {
			return fmt.Sprint("c", p.number)
		}
		return "c?"
	})
}

// owner returns what is known of an owner of an object. The caller holds w.mu.
func (w *world) owner(o *object, id string) *owner {
	x := w.owners[key{o, id}]
	if x == nil {
		x = &owner{id: id, name: id}
		x.process, x.number = w.processOf(id)
		if o.capacity > 0 {
			x.name = fmt.Sprintf("permit %x", id[:3])
		}
		w.owners[key{o, id}] = x
	}
	return x
}

// processOf returns the process of an owner or a client, and of which of its clients.
func (w *world) processOf(id string) (*process, int) {
	if len(id) < idLength {
		return nil, 0
	}
	c := w.clients[id[:idLength]]
	return c.process, c.number
}

// idLength is the length of the id of a client.
const idLength = 36

// A place is one of the clients of a process.
type place struct {
	process *process
	number  int
}

// A key names an owner of an object, or a permit of it.
type key struct {
	object *object
	id     string
}

// permitsOf notes whose permits an owner would get. The caller holds w.mu.
func (w *world) permitsOf(o *object, owner string) {
	if w.permitted[key{o, owner}] {
		return
	}
	w.permitted[key{o, owner}] = true
	for i := range o.capacity {
		sum := sha1.Sum([]byte(owner + ":" + strconv.Itoa(i)))
		w.owner(o, string(sum[:16])).process, _ = w.processOf(owner)
	}
}

// holds returns what is held under a name at the latest masters, and for how long.
func (w *world) holds(o *object) []hold {
	if !o.votes {
		return w.net.master.holds(o)
	}
	var all []hold
	for _, n := range w.nets {
		all = append(all, n.master.holds(o)...)
	}
	slices.SortFunc(all, func(a, b hold) int { return cmp.Compare(a.id, b.id) })
	return all
}

// executing notes what is held before a call. The caller holds net.mu.
func (w *world) executing(s *server, c driver.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.HasSuffix(c.Script.Name, "_batch") {
		w.batches++
	}
	for _, o := range w.objects {
		if !concerns(c, o) {
			continue
		}
		w.before[o] = before{s.holds(o), s.line(o), s.queue(o)}
		if o.capacity > 0 {
			for _, entry := range s.queue(o) {
				owner, _, _ := strings.Cut(entry, ":permits")
				w.permitsOf(o, owner)
			}
		}
	}
}

// before is what a server had of an object before a call.
type before struct {
	holds       []hold
	line, queue []string
}

// concerns reports whether a call may change an object.
func concerns(c driver.Call, o *object) bool {
	return slices.ContainsFunc(c.Keys, func(key string) bool {
		return key == o.name || strings.Contains(key, "{"+o.name+"}")
	})
}

// executed judges what a call has changed. The caller holds net.mu.
func (w *world) executed(client int, s *server, c driver.Call, r driver.Result, how arrival) {
	w.mu.Lock()
	defer w.mu.Unlock()
	late, stale := how > inTime, ""
	if s != s.network.master {
		stale = " at a replaced master"
	}
	if c.Script.Name != "mutex_inspect" && c.Script.Name != "client_get" { // see class
		w.tracef("client %d%s: %s %v = %v", client, stale, c.Script.Name, shown(c.Args), said(r))
	}
	behind := w.plan.profile.setting != steady && s.now().Before(w.latest.Add(time.Millisecond))
	if s.now().After(w.latest) {
		w.latest = s.now()
	}
	for _, o := range w.objects {
		if !concerns(c, o) {
			continue
		}
		s.forget(o)
		before, after := w.before[o].holds, s.holds(o)
		if name := c.Script.Name; strings.HasSuffix(name, "_grant") || strings.HasSuffix(name, "_release") || name == "keep" {
			if x := w.owner(o, strings.TrimSuffix(c.Args[0], ":write")); x.released.IsZero() {
				x.released = time.Now()
			}
		}
		if late { // also if it has only entered the queue again
			for _, arg := range c.Args {
				if x := w.owners[key{o, strings.TrimSuffix(arg, ":write")}]; x != nil {
					x.late = true
					x.again = x.again || !x.released.IsZero() && (how == again || time.Since(x.released) > grace)
				}
			}
		}
		w.judgePermits(client, s, c, o)
		w.judgeOrder(s, c, o, after)
		w.judgeQueue(s, o)
		for _, h := range after {
			if x := w.owner(o, h.id); named(c, h.id) {
				x.late, x.used = x.late || late, time.Now()
				x.behind = x.behind || behind && c.Script.Name != "renew"
			}
		}
		for _, h := range after {
			x, was := w.owner(o, h.id), has(before, h.id)
			if h.count > 1 && !x.entered && named(c, h.id) {
				w.failf("P6", "%s has %s %d times, and was not entered again", x.name, o.name, h.count)
			}
			whole := clock.Now()+h.left >= x.until // as much as any server has promised
			x.until = max(x.until, clock.Now()+h.left)
			if was != nil && !h.end.After(was.end) {
				continue
			}
			if was == nil && strings.HasSuffix(c.Script.Name, "renew") {
				w.failf("P6", "a renewal grants %s to %s", o.name, x.name)
			}
			if x.most > 0 && x.until > x.most && !late && !x.late {
				w.failf("P6", "%s has a lease time, and gets %v more", x.name, x.until-x.most)
			}
			if late { // its call may be over: it is freed at the latest with its lease
				x.ends = x.until
			}
			if s == s.network.master && whole {
				x.broken, x.gone = "", time.Time{}
			} else if s == s.network.master {
				x.gone = time.Time{}
			} else if w.plan.profile.setting != strict {
				x.broken, x.bound = "a replaced master has granted it", w.toldAtOnce()
			}
			if was == nil {
				x.stays = time.Time{} // a request that came late has queued it again
				x.server, x.write, x.behind = s, s.writes, x.behind || behind
				x.used = time.Now()
				if x.process == nil {
					x.process = w.processes[client]
				}
				w.tracef("  %s is granted to %s for %v", o.name, x.name, h.left)
				if w.stopsFor > 0 && strings.HasSuffix(c.Script.Name, "_grant") && time.Since(s.resumes) > 2*time.Second {
					w.tracef("the server stops for %v", w.stopsFor)
					s.stopped, s.resumes, w.stopsFor = time.Now(), time.Now().Add(w.stopsFor), 0
				}
			}
		}
		for _, h := range before {
			if has(after, h.id) != nil {
				continue
			}
			x := w.owner(o, h.id)
			w.tracef("  %s is taken from %s", o.name, x.name)
			own := named(c, h.id)
			if time.Now().Before(x.least) && x.broken == "" {
				w.failf("P6", "%s has to stay for %v more", x.name, time.Until(x.least))
			}
			forced := strings.HasSuffix(c.Script.Name, "_force")
			if forced {
				x.broken, x.bound, x.forced = "it was freed by force", w.toldByRenewal(), true
				if x.process != nil && x.process.number == client && !late {
					x.bound = w.toldAtOnce() // the client verifies its own leases
				}
			}
			if !own && !forced && h.left > time.Millisecond && s == s.network.master && x.broken == "" {
				w.failf("P6", "%s of client %d frees what %s holds for %v more", c.Script.Name, client, x.name, h.left)
			}
		}
	}
	w.judge()
	w.judgeFree()
}

// judgePermits judges that a script keeps the number of permits.
func (w *world) judgePermits(client int, s *server, c driver.Call, o *object) {
	if o.capacity == 0 || s.number("EXISTS", o.name) == 0 {
		return
	}
	if free, leased := s.number("GET", o.name), s.number("ZCARD", "{"+o.name+"}:timeout"); free+leased != int64(o.capacity) {
		w.failf("P6", "after %s of client %d, %d of %d permits are free and %d leased", c.Script.Name, client, free, o.capacity, leased)
	}
}

// named reports whether a call names an owner.
func named(c driver.Call, id string) bool {
	return slices.ContainsFunc(c.Args, func(a string) bool { return strings.Contains(a, id) })
}

// shown are the arguments of a script in the timeline. Ids of permits are shortened, as in the
// names of owners.
type shown []string

func (args shown) String() string {
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i] = strconv.Quote(a)
		if !binary(a) {
			continue
		}
		var ids []string
		for id := range slices.Chunk([]byte(a), 16) {
			ids = append(ids, fmt.Sprintf("%x", id[:3]))
		}
		texts[i] = strings.Join(ids, " ")
	}
	return fmt.Sprint(texts)
}

// binary reports whether an argument has ids of permits.
func binary(a string) bool {
	return len(a)%16 == 0 && strings.ContainsFunc(a, func(r rune) bool { return r < ' ' || r > '~' })
}

// said is a reply in the timeline.
type said driver.Result

func (r said) String() string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case r.Reply.Type == driver.List:
		var all []string
		for _, e := range r.Reply.List {
			all = append(all, said{Reply: e}.String())
		}
		return fmt.Sprint(all)
	case r.Reply.Type == driver.Int:
		return fmt.Sprint(r.Reply.Int)
	default:
		return r.Reply.Str
	}
}

// toldAtOnce is how long it may take until a holder is told that its lock is gone, if its
// server answers and the client verifies its leases at once.
func (w *world) toldAtOnce() time.Duration { return time.Second + w.options.Replication.Timeout }

// toldByRenewal is the same if the next renewal or verification finds it out.
func (w *world) toldByRenewal() time.Duration { return w.options.RenewEvery + w.toldAtOnce() }

// breaks notes that the server does not keep its promises to any owner from now on.
// The caller holds w.mu.
func (w *world) breaks(why string, bound time.Duration) {
	for _, x := range w.owners {
		if x.until > clock.Now() {
			x.broken, x.bound = why, bound
		}
	}
}
