package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// A lease is what a user of a client has got and not yet released.
type lease struct {
	*holdfast.Lease
	ctx    context.Context
	client int
	end    time.Duration // by clock.Now, if the lease is of fixed length and was not extended; otherwise 0
	lost   bool          // the checks know that it is lost
}

// An owner is what the checks know of one owner of the lock.
type owner struct {
	name   string
	client int

	// until is when the last lease ends that a server has given it, by clock.Now. A
	// lease is never valid for longer, whatever the servers and their clocks do.
	until time.Duration

	// broken says why the latest master may not have the lease that it should have. It
	// is "" if the master keeps what was promised. A confirmation of the latest master
	// resets it.
	broken string
	bound  time.Duration // how long it may take until a holder is told, if its server answers
	gone   time.Time     // since when the latest master does not have the lease; zero if it has it

	denied time.Time // when the client was told that the owner does not hold the lock; zero if it was not
	late   bool      // one of its requests took long to arrive
	server *server   // that has granted it
	write  int       // by this write
	behind bool      // a clock that is behind an earlier one has granted it
	passed bool      // a release has granted it
}

// An event is a line of the trace.
type event struct {
	at     time.Duration
	format string
	args   []any
}

func (w *world) text() []string {
	lines := make([]string, len(w.trace))
	for i, e := range w.trace {
		lines[i] = fmt.Sprintf("%12v ", e.at) + randomID.ReplaceAllString(fmt.Sprintf(e.format, e.args...), "client")
	}
	return lines
}

// randomID is the id of a client.
var randomID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

// isOwner reports whether an argument of a script is an owner.
func isOwner(arg string) bool { return strings.Count(arg, "-") == 4 && strings.Contains(arg, ":") }

// failf notes that a promise was broken. The caller holds w.mu.
func (w *world) failf(format string, args ...any) {
	w.failed = append(w.failed, fmt.Sprintf("%v: ", time.Since(w.begun))+fmt.Sprintf(format, args...))
}

// fail is failf for a caller that does not hold w.mu.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failf(format, args...)
}

// tracef adds a line to what HOLDFAST_SEED prints. The caller holds w.mu.
func (w *world) tracef(format string, args ...any) {
	w.trace = append(w.trace, event{time.Since(w.begun), format, args})
}

// owner returns what is known of an owner. The caller holds w.mu.
func (w *world) owner(id string) *owner {
	o := w.owners[id]
	if o == nil {
		o = &owner{name: id, client: -1}
		w.owners[id] = o
	}
	return o
}

// executed checks the promises whenever a server has done something. The caller holds
// net.mu.
func (w *world) executed(client int, s *server, call driver.Call, reply driver.Reply, late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	args := slices.Clone(call.Args)
	for i, a := range args {
		if isOwner(a) { // its first part is random
			o := w.owner(a)
			if o.client < 0 {
				o.name, o.client = fmt.Sprintf("%d:%s", client, a[strings.IndexByte(a, ':')+1:]), client
			}
			o.late = o.late || late
			args[i] = o.name
		}
	}
	stale := ""
	if s != w.net.master {
		stale = "stale "
	}
	w.tracef("client %d %s%s%q = %v %v", client, stale, call.Script.Name, args, reply.Int, reply.List)
	if slices.Contains(call.Args, w.left) {
		w.unused = time.Now()
	}
	w.granted(client, s, call, reply, late)
	s.holder = s.Holder(name)
	w.check()
}

// granted notes what a server has granted or confirmed.
func (w *world) granted(client int, s *server, call driver.Call, reply driver.Reply, late bool) {
	give := func(id, ms string) {
		o := w.owner(id)
		n, _ := strconv.Atoi(ms)
		o.behind = o.behind || (w.strict || w.weak) && call.Script.Name != "renew" && s.Now().Before(w.latest.Add(time.Millisecond))
		if o.server != s && call.Script.Name != "renew" {
			o.server, o.write = s, s.writes
		}
		until := clock.Now() + time.Duration(n)*time.Millisecond
		less := strings.HasSuffix(call.Script.Name, "_pass") && until < o.until // than another server has given it
		o.until = max(o.until, until)
		if s == w.net.master {
			if !less {
				o.broken = ""
			}
		} else if !w.strict {
			o.broken, o.bound = "a replaced master has granted it", w.toldAtOnce()
		}
	}
	switch name := call.Script.Name; {
	case strings.HasSuffix(name, "_acquire") && reply.Int > 0, strings.HasSuffix(name, "_queue") && reply.Type == driver.Int:
		give(call.Args[1], call.Args[0])
	case strings.HasSuffix(name, "_pass") && reply.Int > 0:
		if id := s.Holder(call.Keys[0]); id != "" {
			give(id, "2000")
			w.owner(id).passed = true
		}
	case name == "mutex_force" && reply.Int == 1:
		o := w.owner(s.holder)
		o.broken, o.bound = "a client has freed it by force", w.toldByRenewal()
		if o.client == client && !late {
			o.bound = w.toldAtOnce() // the client verifies its own leases
		}
	case name == "renew":
		for i, r := range reply.List {
			if r.Int == 1 {
				give(call.Args[2*i+1], call.Args[2*i])
			}
		}
	}
	if now := s.Now(); now.After(w.latest) {
		w.latest = now
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
	for _, o := range w.owners {
		if o.until > clock.Now() {
			o.broken, o.bound = why, bound
		}
	}
}

// check checks P1 and P2. The caller holds net.mu and w.mu.
func (w *world) check() {
	holder := w.net.master.Holder(name)
	w.checkLeft(holder)
	valid := 0
	clients := make(map[int]int)
	for _, l := range w.leases {
		o := w.owner(l.Owner())
		if holder == l.Owner() {
			o.gone = time.Time{}
		} else if o.gone.IsZero() {
			o.gone = time.Now()
		}
		if l.Valid() {
			w.checkValid(l, o, holder)
			if o.broken == "" {
				valid++
			}
			if !o.behind {
				clients[l.client]++
			}
		} else if !l.lost && l.ctx.Err() != nil {
			w.checkLost(l, o, holder)
		}
		if l.ctx.Err() == nil && holder != l.Owner() && holder != "" && time.Since(w.resumed) > time.Second+100*time.Millisecond {
			w.checkTold("context", l, o, holder)
		}
	}
	if valid > 1 {
		w.failf("P1: %d leases are valid", valid)
	}
	for c, n := range clients {
		if n > 1 {
			w.failf("P1: %d leases of client %d are valid", n, c)
		}
	}
}

// checkValid checks a lease that is valid.
func (w *world) checkValid(l *lease, o *owner, holder string) {
	if clock.Now() >= o.until {
		w.failf("P2: the lease of %s is valid for longer than any server has promised", o.name)
	}
	if l.end > 0 && clock.Now() > l.end {
		w.failf("P2: the lease of %s is valid for longer than it should", o.name)
	}
	if !o.denied.IsZero() && time.Now().After(o.denied) {
		w.failf("P2: the lease of %s is valid, and the server has said that it is not the owner", o.name)
	}
	if holder != l.Owner() {
		w.checkTold("lease", l, o, holder)
	}
}

// checkTold checks that a holder that no longer has the lock at the latest master was
// told, or that it is not late yet.
func (w *world) checkTold(what string, l *lease, o *owner, holder string) {
	if o.broken == "" {
		w.failf("P2: the %s of %s is valid, and the server has %q", what, o.name, w.name(holder))
		return
	}
	bound := o.bound
	if since := w.waits[l.client]; !since.IsZero() && since.Before(o.gone) {
		bound = min(bound, poll+2*time.Second) // a call that waits for a lease of its own client verifies it
	}
	since, moved, calm := w.links[l.client].calmSince(w.net.master)
	late := max(time.Since(o.gone)-bound, 0)                        // zero if it is not late
	late = min(late, max(time.Since(since)-answerTimeout-bound, 0)) // a request without an answer may have been sent before
	late = min(late, max(time.Since(moved)-w.toldAtOnce(), 0))
	if calm && late > 0 {
		w.failf("P2: the %s of %s is valid %v after the lock was lost (%s)", what, o.name, time.Since(o.gone), o.broken)
	}
}

// checkLost checks that a lease was not lost without a reason.
func (w *world) checkLost(l *lease, o *owner, holder string) {
	l.lost = true
	var lost *holdfast.LostError
	if !errors.As(context.Cause(l.ctx), &lost) || holder != l.Owner() || o.late || w.repeats || len(w.net.servers) > 1 {
		return
	}
	if r := lost.Reason; (r == holdfast.LossNotOwner || r == holdfast.LossFailover) && o.denied.IsZero() {
		w.failf("P2: %s has lost its lease (%v), and the server has it", o.name, lost)
	}
}

// checkLeft checks P6: the server does not keep a lock that no call uses.
func (w *world) checkLeft(holder string) {
	if holder != w.left {
		w.left, w.unused = holder, time.Now()
	}
	if holder == "" || w.repeats {
		return
	}
	o := w.owner(holder)
	left := w.net.master.Remaining(name)
	for _, l := range w.leases {
		if l.Owner() != holder {
			continue
		}
		if l.Valid() || l.end == 0 {
			w.unused = time.Now()
		}
		if l.end > 0 && !o.late && !w.strict && !w.weak && clock.Now()+left > l.end+200*time.Millisecond { // a verification takes up to 100 ms to arrive
			w.failf("P6: the server keeps the lock of %s for longer than it should", o.name)
			l.end = 0
		}
	}
	since, _, calm := w.links[o.client].calmSince(w.net.master)
	if !calm || o.late || o.broken != "" || o.server != w.net.master || w.net.master.connected() < w.net.master.replicas {
		return
	}
	if unused := min(time.Since(w.unused), time.Since(since)); unused > 5*time.Second {
		w.failf("P6: the server has kept the lock of %s for %v, and no call uses it", o.name, unused)
		w.unused = time.Now()
	}
}

func (w *world) name(id string) string {
	if id == "" {
		return ""
	}
	return w.owner(id).name
}

// renewed notes the answer to a renewal that has reached the client.
func (w *world) renewed(call driver.Call, reply driver.Reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, r := range reply.List {
		if o := w.owner(call.Args[2*i+1]); r.Int == 0 && o.denied.IsZero() {
			o.denied = time.Now()
		}
	}
}

func (w *world) took(c int, l *holdfast.Lease, fixed time.Duration) *lease {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	held := &lease{Lease: l, ctx: l.Context(), client: c}
	if since, _, calm := w.links[c].calmSince(w.net.master); fixed > 0 && calm && time.Since(since) > 5*time.Second && !w.owner(l.Owner()).late && !w.strict && !w.weak {
		if left := time.Until(l.Deadline()); left < fixed*9/10-500*time.Millisecond {
			w.failf("P2: a lease of %v ends after %v", fixed, left)
		}
	}
	if fixed > 0 {
		held.end = clock.Now() + fixed
	}
	if !w.links[c].dead() {
		w.leases = append(w.leases, held)
		w.grants++
		w.served[c]++
	}
	if !l.Valid() {
		w.failf("P2: Lock returned a lease that is over")
	}
	o := w.owner(l.Owner())
	if s := o.server; w.options.Replication.Mode != holdfast.Async && s == w.net.master && s.replicas > 0 && !s.wasCut && s.has < o.write {
		w.failf("P1: %s has a lock that the replica does not have", o.name)
	}
	w.checkToken(c, l.Token(), o)
	w.check()
	return held
}

// checkToken checks P3. If the server has lost the lock, or was replaced and still grants
// it, the order in which clients get their tokens is not that of the grants.
func (w *world) checkToken(client int, token int64, o *owner) {
	if o.broken != "" {
		return
	}
	switch {
	case token <= w.highest[client]:
		w.failf("P3: client %d got token %d after %d", client, token, w.highest[client])
	case token <= slices.Max(w.highest[:]) && !o.behind:
		w.failf("P3: token %d after %d", token, slices.Max(w.highest[:]))
	}
	w.highest[client] = max(w.highest[client], token)
}

func (w *world) drop(l *lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leases = slices.DeleteFunc(w.leases, func(x *lease) bool { return x == l })
}

// release releases a lease and checks P8: a release after the end of a lease does not
// succeed.
func (w *world) release(l *lease) {
	w.net.mu.Lock()
	valid, held := l.Valid(), w.net.master.Holder(name) == l.Owner()
	w.net.mu.Unlock()
	w.drop(l)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := l.Release(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := w.owner(l.Owner()); {
	case err == nil && !valid && !held && !w.strict && !w.weak:
		w.failf("P8: %s released the lock after it was lost", o.name)
	case err != nil && !valid && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrClosed):
		w.failf("P8: the lease of %s was over before its release, and the error is %v", o.name, err)
	}
}

// extended notes that a lease may be valid for longer from now on.
func (w *world) extended(l *lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.end = 0
}

func (w *world) wait(client, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[client] += n
	switch {
	case w.waiting[client] == 0:
		w.waits[client] = time.Time{}
	case w.waits[client].IsZero():
		w.waits[client] = time.Now()
	}
}

// look checks P1 and P2 from time to time, until ctx ends.
func (w *world) look(ctx context.Context) {
	for ctx.Err() == nil {
		w.net.mu.Lock()
		w.mu.Lock()
		w.check()
		w.mu.Unlock()
		w.net.mu.Unlock()
		time.Sleep(97*time.Millisecond + 3)
	}
}

// watch checks P5 for a time: a lock is not free for longer than bound while some wait.
func (w *world) watch(d, bound time.Duration) {
	var free time.Time // since when the lock is free while some wait; zero if it is not
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100*time.Millisecond + 7) {
		w.net.mu.Lock()
		holder := w.net.master.Holder(name)
		w.net.mu.Unlock()
		w.mu.Lock()
		waiting := 0
		for _, l := range w.links {
			if !l.dead() {
				waiting += w.waiting[l.client]
			}
		}
		switch {
		case waiting == 0 || holder != "":
			free = time.Time{}
		case free.IsZero():
			free = time.Now()
		case time.Since(free) > bound:
			w.failf("P5: the lock is free for %v while %d wait", time.Since(free), waiting)
			free = time.Now()
		}
		w.mu.Unlock()
	}
}
