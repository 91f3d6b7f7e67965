package simulation_test

import (
	"context"
	"fmt"
	"maps"
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
		lines[i] = fmt.Sprintf("%12v ", e.at) + fmt.Sprintf(e.format, e.args...)
	}
	return lines
}

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

// sparePassed spares grants by a release from the check that the tokens of one client
// rise after the clock of the server was set back. The engine compares them with the
// highest token before the first request of the call, so a token may occur twice.
const sparePassed = true

// isOwner reports whether an argument of a script is an owner.
func isOwner(arg string) bool { return strings.Count(arg, "-") == 4 && strings.Contains(arg, ":") }

func (w *world) failf(format string, args ...any) {
	w.failed = append(w.failed, fmt.Sprintf("%v: ", time.Since(w.begun))+fmt.Sprintf(format, args...))
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
func (w *world) executed(client int, s *server, call driver.Call, reply driver.Reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	args := slices.Clone(call.Args)
	for i, a := range args {
		if isOwner(a) { // its first part is random
			o := w.owner(a)
			if o.client < 0 {
				o.name, o.client = fmt.Sprintf("%d:%s", client, a[strings.IndexByte(a, ':')+1:]), client
			}
			args[i] = o.name
		}
	}
	stale := ""
	if s != w.net.master {
		stale = "stale "
	}
	w.tracef("client %d %s%s%q = %v %v", client, stale, call.Script.Name, args, reply.Int, reply.List)
	w.granted(s, call, reply)
	w.check()
}

// granted notes what a server has granted or confirmed.
func (w *world) granted(s *server, call driver.Call, reply driver.Reply) {
	give := func(id, ms string) {
		o := w.owner(id)
		n, _ := strconv.Atoi(ms)
		o.behind = o.behind || (w.strict || w.weak) && call.Script.Name != "renew" && s.Now().Before(w.latest.Add(time.Millisecond))
		o.until = max(o.until, clock.Now()+time.Duration(n)*time.Millisecond)
		o.broken = ""
		if s != w.net.master && !w.strict {
			o.broken, o.bound = "a replaced master has granted it", toldByTerm
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
		w.breaks("another client has freed it by force", w.toldByRenewal())
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

// The bounds for telling a holder that its lock is gone, if its server answers. The
// first is for what a renewal or verification finds out. The second is for a new term,
// in which every lease is verified at once. Both include a request without an answer,
// which was sent before.
const toldByTerm = answerTimeout + time.Second

func (w *world) toldByRenewal() time.Duration { return w.options.RenewEvery + toldByTerm }

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
	since, calm := w.links[l.client].calmSince(w.net.master)
	if since.Before(o.gone) {
		since = o.gone
	}
	if calm && time.Since(since) > o.bound {
		w.failf("P2: the %s of %s is valid for %v after the lock was lost (%s)", what, o.name, time.Since(since), o.broken)
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

func (w *world) took(c int, l *holdfast.Lease) *lease {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	held := &lease{l, l.Context(), c}
	if !w.links[c].dead() {
		w.leases = append(w.leases, held)
		w.grants++
	}
	if !l.Valid() {
		w.failf("P2: Lock returned a lease that is over")
	}
	w.checkToken(c, l.Token(), w.owner(l.Owner()))
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
	case o.behind && o.passed && sparePassed:
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

func (w *world) wait(client, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[client] += n
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

// watch checks P5 for a time: a lock is not free for long while some wait.
func (w *world) watch(d time.Duration) {
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
		case time.Since(free) > poll+time.Second:
			w.failf("P5: the lock is free for %v while %d wait", time.Since(free), waiting)
			free = time.Now()
		}
		w.mu.Unlock()
	}
}
