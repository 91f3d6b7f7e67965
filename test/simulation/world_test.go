package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest/memory"
)

// A world is one schedule.
type world struct {
	plan      plan
	options   holdfast.Options
	objects   []*object
	nets      []*network // one per server
	net       *network   // the first of them
	processes []*process
	begun     time.Time
	slept     time.Duration // how long the machine of the clients was suspended
	crashes   int           // how many clients may still crash
	gone      int           // how many have
	crashed   time.Time     // when the last one has
	ghosts    int           // of these, those that the server believes to listen

	mu        sync.Mutex
	leases    []*lease // that are not released
	calls     []*call  // that wait
	ended     []*call  // that have waited
	owners    map[key]*owner
	clients   map[string]place // by their ids
	tokens    map[string]int64 // the highest, by object and family
	uses      map[*object]*use
	before    map[*object]before     // the present call
	queued    map[string]bool        // the entries of queues that there were
	permitted map[key]bool           // the owners whose permits are known
	stale     map[*process]time.Time // since when more calls of it are queued than wait
	stopsFor  time.Duration          // how long the master stops after the next release that grants
	wiped     time.Time              // when a server was last started without its data
	resumed   time.Time              // when the machine of the clients was last resumed
	latest    time.Time              // that the clock of a server has shown
	free      map[*call]time.Time
	trace     []event
	failed    []failure
	grants    int
	batches   int // of calls that share a script
}

// A profile says what happens in a schedule.
type profile struct {
	name    string
	setting setting
	clients [2]int // from, to
	users   int    // per client, at most
	objects []*object
	faults  []*fault
	sets    bool                                // calls for several objects
	rights  func(process int) func(string) bool // which keys its user may use
	options func(o *holdfast.Options)           // changes the options
	stays   bool                                // locks stay after their release
	kept    bool                                // no fault is long enough for the loss of a renewed lease
	hasty   bool                                // calls give up soon
	various bool                                // more options of calls and clients; the server has a replica
	long    bool                                // most holds are long
	renewed bool                                // no call has a lease time
	bursts  time.Duration                       // the time between calls of all users at the same moment; 0: each calls when it likes
	bound   time.Duration                       // how long a free object may be wanted; 0: see world.bound
	servers int                                 // 0: one
}

// A setting says what servers may do, and so what is promised.
type setting int

const (
	steady setting = iota // the server keeps its memory and its clock
	strict                // mode Strict: P1 and P2 hold across failovers
	weak                  // mode Async or Acked: holders are told
)

// A call is one that waits for an object.
type call struct {
	process *process
	user    int
	objects []*object
	kinds   []kind
	since   time.Time
	over    time.Time // when it has ended, if it has waited
	fixed   bool      // it has a lease time
	lease   time.Duration
	atLeast time.Duration
	ends    time.Time // when its time to wait or its context ends; zero: it does not
	slack   time.Duration
}

func (c *call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "client %d user %d:", c.process.number, c.user)
	for i, o := range c.objects {
		fmt.Fprintf(&b, " %s %s", c.kinds[i].name, o.name)
		if n := c.kinds[i].permits; n > 0 {
			fmt.Fprintf(&b, " (%d)", n)
		}
	}
	return b.String()
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// begin draws the options of a schedule, and starts its servers and clients.
func (w *world) begin() error {
	p, r := w.plan.profile, w.plan.random(ofOptions)
	w.objects, w.crashes = p.objects, w.plan.crashes
	for _, o := range w.objects {
		w.uses[o] = new(use)
	}
	w.options = holdfast.Options{
		Anonymous:       true,
		WatchdogTimeout: 3 * time.Second, RenewEvery: 700 * time.Millisecond, PollInterval: poll,
		Handoffs: []int{0, 0, -1, -1, 1, 3}[r.IntN(6)],
		Logger:   slog.New(slog.DiscardHandler),
	}
	if r.IntN(2) == 0 { // most fixed leases end before they are verified
		w.options.WatchdogTimeout, w.options.RenewEvery = 20*time.Second, 6170*time.Millisecond
	}
	replicas := 1
	switch p.setting {
	case strict:
		w.options.Replication = holdfast.Replication{Mode: holdfast.Strict, Replicas: 1, Timeout: time.Second}
		w.options.ClockSkew = 250 * time.Millisecond
	case weak:
		w.options.Replication.Mode = holdfast.ReplicationMode(r.IntN(2)) // Acked or Async
	default:
		if !p.various {
			replicas = 0
		}
	}
	wakeAll := 0
	if p.various {
		wakeAll = r.IntN(3)
	}
	if p.options != nil {
		p.options(&w.options)
	}
	order := new(sync.Mutex)
	for range max(p.servers, 1) {
		n := &network{mu: order, executing: w.executing, executed: w.executed, down: make(chan struct{})}
		n.serve(newServer(scripted.Copy(), replicas))
		w.nets = append(w.nets, n)
	}
	w.net = w.nets[0]
	w.tracef("leases of %v, renewed every %v, %d hand-offs, %+v", w.options.WatchdogTimeout, w.options.RenewEvery, w.options.Handoffs, w.options.Replication)
	for i := range w.plan.users {
		pr := &process{number: i}
		for j, n := range w.nets {
			l := newLink(n, i, w.plan.seed+uint64(j)<<40)
			l.renewed = w.renewed
			if p.rights != nil {
				l.rights = p.rights(i)
			}
			options := w.options
			options.WakeAll = wakeAll == 2 || wakeAll == 1 && i == 0 // none, one of them, or all
			c, err := holdfast.New(l, &options)
			if err != nil {
				return err
			}
			w.clients[c.ID()] = place{pr, j}
			pr.links, pr.clients = append(pr.links, l), append(pr.clients, c)
		}
		if p.servers > 1 {
			var err error
			if pr.redlock, err = holdfast.NewRedlock(pr.clients, holdfast.RedlockOptions{LongestLease: longest}); err != nil {
				return err
			}
		}
		w.processes = append(w.processes, pr)
	}
	if p.servers > 1 {
		time.Sleep(longest + time.Second) // servers that have just started do not vote
	}
	w.begun = time.Now()
	return nil
}

// longest is the longest lease of a redlock.
const longest = time.Minute

// scripted is a server that has compiled the scripts, and has no data.
var scripted = memory.New()

// lock stops the servers and the judge until unlock is called.
func (w *world) lock() (unlock func()) {
	w.net.mu.Lock()
	w.mu.Lock()
	return func() {
		w.mu.Unlock()
		w.net.mu.Unlock()
	}
}

// use acquires and releases objects again and again, in all ways, until ctx ends.
func (w *world) use(ctx context.Context, p *process, user int) {
	for i := uint64(0); ctx.Err() == nil && !p.links[0].closed(); i++ {
		r := w.plan.random(ofUsers + i<<32 | uint64(p.number)<<8 | uint64(user))
		if every := w.plan.profile.bursts; every > 0 {
			time.Sleep(every - time.Since(w.begun)%every)
		} else {
			time.Sleep(upTo(r, 20*time.Millisecond))
		}
		w.once(ctx, p, user, r)
	}
}

// once acquires something once.
func (w *world) once(ctx context.Context, p *process, user int, r *rand.Rand) {
	c := &call{process: p, user: user}
	for _, i := range r.Perm(len(w.objects))[:1+w.several(r)] {
		o := w.objects[i]
		c.objects, c.kinds = append(c.objects, o), append(c.kinds, o.kinds[r.IntN(len(o.kinds))])
	}
	var opts []holdfast.LockOption
	if r.IntN(3) == 0 && !w.plan.profile.renewed {
		c.fixed, c.lease = true, time.Second+upTo(r, time.Second<<(2*r.IntN(3)))
		if w.plan.profile.various && w.plan.crashes == 0 && r.IntN(2) == 0 {
			c.lease = time.Hour
		}
		opts = append(opts, holdfast.LeaseTime(c.lease))
	}
	alone := len(c.objects) == 1 && !c.kinds[0].shared
	if w.plan.profile.stays && alone && r.IntN(3) == 0 {
		c.atLeast = time.Second + upTo(r, 4*time.Second)
		opts = append(opts, holdfast.AtLeast(c.atLeast))
	}
	one, cancel := context.WithCancel(ctx)
	defer cancel()
	try := false
	patience := 3 * time.Second
	if w.plan.profile.hasty {
		patience = 30 * time.Millisecond
	}
	acked := time.Duration(0) // how long a grant may wait for replicas
	if w.plan.profile.setting != steady {
		acked = time.Second
	}
	switch r.IntN(8) {
	case 0:
		d := upTo(r, patience*5/3)
		opts = append(opts, holdfast.Wait(d))
		c.ends, c.slack = time.Now().Add(d), time.Second+acked
	case 1:
		d := upTo(r, patience)
		time.AfterFunc(d, cancel)
		c.ends, c.slack = time.Now().Add(d), 250*time.Millisecond
	case 2:
		try = true
		c.ends, c.slack = time.Now(), 3500*time.Millisecond+acked
	}
	if len(c.objects) > 1 {
		c.slack += 250 * time.Millisecond // it leaves one queue after the other
	}
	lock := w.locker(c)
	w.ask(c, !try)
	var l *holdfast.Lease
	var err error
	if try {
		l, err = lock.TryLock(one, opts...)
	} else {
		l, err = lock.Lock(one, opts...)
	}
	w.answered(c, l, err)
	if err == nil && one.Err() != nil {
		w.mu.Lock()
		w.failf("P8", "%v got a lease after its context had ended", c)
		w.mu.Unlock()
	}
	if errors.Is(err, holdfast.ErrQueueFull) {
		time.Sleep(upTo(r, 2*time.Second))
	}
	if err != nil {
		return
	}
	held := w.took(c, l)
	w.hold(one, lock, held, r)
	stay := time.Duration(0)
	if w.plan.profile.stays && alone && r.IntN(3) == 0 {
		stay = time.Second + upTo(r, 4*time.Second)
	}
	w.release(held, stay)
	if held.reads != nil {
		w.readOn(one, held, r)
	}
}

// readOn goes on with the read lock of a writer that has released its write lock.
func (w *world) readOn(ctx context.Context, l *lease, r *rand.Rand) {
	if !l.reads.Valid() || l.reads.Context().Err() != nil {
		if w.plan.profile.kept && !l.call.fixed && ctx.Err() == nil {
			w.mu.Lock()
			w.failf("P2", "the read lock of %v ended with its write lock", l.call)
			w.mu.Unlock()
		}
		_ = l.reads.Release(context.Background())
		return
	}
	held := w.took(&call{process: l.call.process, user: l.call.user, objects: l.call.objects, kinds: []kind{read}}, l.reads)
	time.Sleep(upTo(r, time.Second))
	w.release(held, 0)
}

// nest takes a lock inside a lease: the same again, or to read what it writes. What it reads cannot
// be written.
func (w *world) nest(lock holdfast.Locker, l *lease, r *rand.Rand, longest time.Duration) {
	opts := []holdfast.LockOption{holdfast.Wait(time.Second)}
	c := l.call
	reads := c.kinds[0].name == read.name
	writes := c.kinds[0].name == write.name || c.kinds[0].name == first.name
	switch {
	case len(c.objects) > 1 || c.kinds[0].shared && !reads || c.kinds[0].name == "election":
		return
	case reads:
		begun := time.Now()
		nested, err := write.locker(c.process, c.objects[0].name).Lock(l.Context(), opts...)
		if err == nil {
			_ = nested.Release(context.Background())
		}
		if err == nil || time.Since(begun) > 0 && l.Valid() && c.process.live() {
			w.mu.Lock()
			w.failf("P8", "%v reads, asks to write, and gets %v after %v", c, err, time.Since(begun))
			w.mu.Unlock()
		}
		return
	case writes && r.IntN(2) == 0:
		lock = read.locker(c.process, c.objects[0].name)
	case w.plan.profile.various && r.IntN(2) == 0:
		opts = append(opts, holdfast.LeaseTime(time.Second+upTo(r, 5*time.Second)))
	}
	nested, err := lock.Lock(l.Context(), opts...)
	if err != nil {
		return
	}
	w.entered(l, nested)
	time.Sleep(upTo(r, longest))
	if nested.Owner() != l.Owner() && r.IntN(2) == 0 {
		l.reads = nested
		return
	}
	_ = nested.Release(context.Background())
}

// several returns how many objects more than one a call is for.
func (w *world) several(r *rand.Rand) int {
	if !w.plan.profile.sets || len(w.objects) < 2 {
		return 0
	}
	return r.IntN(len(w.objects))
}

func (w *world) locker(c *call) holdfast.Locker {
	var all []holdfast.Locker
	for i, o := range c.objects {
		all = append(all, c.kinds[i].locker(c.process, o.name))
	}
	if len(all) > 1 {
		return holdfast.MultiLocker(all...)
	}
	return all[0]
}

// hold holds a lease for some time, and sometimes extends or re-enters it.
func (w *world) hold(ctx context.Context, lock holdfast.Locker, l *lease, r *rand.Rand) {
	longest := 10 * time.Millisecond
	ends := l.call.fixed && w.plan.profile.bound > 0 // no message tells that a lease is over
	if !ends && w.plan.profile.bursts == 0 && (r.IntN(4) == 0 || w.plan.profile.long) {
		longest = 8 * time.Second // longer than most leases
	}
	change := r.IntN(8)
	if change < 2 {
		w.mu.Lock()
		l.parts[0].owners[0].most, l.end = 0, 0
		l.parts[0].owners[0].entered = change == 1
		w.mu.Unlock()
	}
	switch change {
	case 0:
		_ = l.Extend(ctx, time.Second+upTo(r, 8*time.Second))
	case 1:
		w.nest(lock, l, r, longest)
	}
	time.Sleep(upTo(r, longest))
}

func (w *world) ask(c *call, waits bool) {
	c.since = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracef("%v asks", c)
	if waits {
		w.calls = append(w.calls, c)
	}
}

// class returns what matters of an error. Its text may name a holder, for which clients ask
// in the background.
func class(err error) error {
	for _, known := range []error{holdfast.ErrLost, holdfast.ErrNotAcquired, holdfast.ErrQueueFull, holdfast.ErrUnavailable, holdfast.ErrNotReplicated, holdfast.ErrClosed, context.Canceled} {
		if errors.Is(err, known) {
			return known
		}
	}
	return err
}

func (w *world) answered(c *call, l *holdfast.Lease, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.calls, c); i >= 0 {
		w.calls = slices.Delete(w.calls, i, i+1)
		c.over, w.ended = time.Now(), append(w.ended, c)
	}
	if late := time.Since(c.ends) - c.slack; !c.ends.IsZero() && late > answerTimeout && c.process.live() && !c.process.closing && c.kinds[0].name != elects.name { // one request more is no failure
		w.failf("P8", "%v returns %v too late", c, late)
	}
	if err != nil {
		w.tracef("%v gets %v", c, class(err))
		if errors.Is(err, holdfast.ErrQueueFull) {
			w.judgeFull(c)
		}
		return
	}
	w.tracef("%v holds as %q, token %d", c, l.Owner(), l.Token())
}
