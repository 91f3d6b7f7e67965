package holdfast

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/observe"
)

const (
	waitEvery = time.Second      // between two publications of a wait
	waitLife  = 10 * time.Second // how long the server keeps one
	waitTime  = time.Second      // for the requests of one round
	copyLife  = 5 * time.Second  // for how long clients pass on the copy of a wait
	maxLooks  = 64               // how many waits one round reads
)

// A want is a lock that a call waits for.
type want struct {
	client     *Client
	kind, name string
}

// A detector looks for a deadlock of one call that waits.
//
// In each round, it reads the waits of the owners that block it, and of those that block
// these. Then it asks who holds what it wants, and publishes that, together with the waits
// that it has read. So a wait also spreads to clients that are not connected to its server.
//
// A cycle of waits is evidence, not a proof: the waits were published at different times. A
// cycle is confirmed once each of its waits was published again after this call had
// published the cycle: they then say that they have seen that publication. So there was a
// moment, before that publication, at which all calls waited and all locks were held.
// Nothing depends on clocks.
type detector struct {
	client *Client
	lease  *Lease // the lease that the call waits for
	wants  []want
	wait   script.Wait

	waits     map[string]script.Wait // the waits that were read, by id
	readAt    time.Time              // when
	drivers   map[string]driver.Driver
	published map[string]*Client // the owners under which the wait was published
	cycle     []link             // the cycle that was found, the own wait first; nil: none
	since     int                // the Seq of the publication after the cycle was found
	reported  bool
}

// A link is a wait in a cycle, and the owner of the next wait that it waits for.
type link struct{ wait, by string }

// detect looks for deadlocks of a call that has waited for long, until the function that
// it returns is called. It returns nil if the call cannot be part of one.
func (c *Client) detect(l *Lease, wants []want, since time.Duration) (stop func()) {
	if c.options.Deadlocks == IgnoreDeadlocks || len(wants) == 0 || len(l.holding()) == 0 {
		return nil
	}
	d := &detector{client: c, lease: l, wants: wants, published: make(map[string]*Client)}
	d.wait = script.Wait{
		ID: fmt.Sprintf("%s:%d", c.ID(), c.calls.number.Add(1)), Since: time.Now().Add(since - clock.Early()).UnixMicro(),
		Client: c.ID(), Who: c.who, Ends: c.options.Deadlocks == EndDeadlocks,
	}
	for _, w := range wants {
		d.wait.Wants = append(d.wait.Wants, script.LockName{Kind: w.kind, Name: w.name})
	}
	ctx, cancel := context.WithCancel(context.Background())
	if !c.calls.start(func() { d.run(ctx) }) {
		cancel()
		return nil
	}
	return cancel
}

// holding returns the locks that the context of the call holds.
func (l *Lease) holding() []*Lease {
	var held []*Lease
	add := func(l *Lease) {
		if l.hold != nil && l.kind != "leased semaphore" && l.kind != "vote" && l.why() == 0 {
			held = append(held, l)
		}
	}
	for o := l.outer; o != nil; o = o.outer {
		if o.released() {
			continue
		}
		if o.parts == nil {
			add(o)
			continue
		}
		for _, p := range o.parts.leases {
			add(p)
		}
	}
	return held
}

func (d *detector) run(ctx context.Context) {
	defer d.withdraw()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := d.round(ctx); err != nil {
			if ctx.Err() == nil && errors.Is(err, errNoDetection) {
				return
			}
			d.cycle = nil // what was read before may be out of date
		}
		timer.Reset(waitEvery)
	}
}

// errNoDetection means that the call cannot look for deadlocks any more.
var errNoDetection = errors.New("cannot look for deadlocks")

// round reads waits, publishes the own one and looks for a cycle.
func (d *detector) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	if err := d.read(ctx); err != nil {
		return err
	}
	d.wait.Saw = make(map[string]int)
	for id, w := range d.waits {
		d.wait.Saw[id] = w.Seq
	}
	held := d.lease.holding()
	if len(held) == 0 {
		return errNoDetection // its leases were released or lost
	}
	if err := d.look(ctx, held); err != nil {
		return err
	}
	d.wait.Seq++
	if err := d.publish(ctx, held); err != nil {
		return err
	}
	d.check(ctx)
	return nil
}

// do sends a call. A refusal ends the detection.
func (d *detector) do(ctx context.Context, to driver.Driver, c driver.Call) (driver.Reply, error) {
	r, err := to.Do(ctx, c)
	if err != nil && driver.ClassOf(err) == driver.Fatal {
		err = fmt.Errorf("%w: %w", errNoDetection, err)
	}
	return r, err
}

// read reads the waits of all owners that block this call, directly or not.
func (d *detector) read(ctx context.Context) error {
	old := d.waits
	d.waits, d.readAt = make(map[string]script.Wait), time.Now()
	asked := make(map[string]bool)
	owners := slices.Clone(d.wait.By)
	for looks := 0; len(owners) > 0 && looks < maxLooks; {
		owner := owners[0]
		owners = owners[1:]
		if asked[owner] {
			continue
		}
		asked[owner] = true
		for _, to := range d.servers(owner) {
			looks++
			r, err := d.do(ctx, to, script.LookAtWait(owner))
			if err != nil {
				return err
			}
			w, ok, err := script.DecodeWaits(r)
			if err != nil || !ok {
				continue
			}
			for _, w := range append(w.Known, w.Wait) {
				if w.ID != d.wait.ID && w.Seq > d.waits[w.ID].Seq && w.Age < copyLife.Milliseconds() {
					d.waits[w.ID] = w
					owners = append(owners, w.By...)
				}
			}
			for _, by := range w.By {
				d.drivers[by] = to // or at another server, which this call may not know
			}
			break
		}
	}
	for id, w := range d.waits { // a copy may be older than what was read before
		if o, ok := old[id]; ok && o.Seq > w.Seq {
			d.waits[id] = o
		}
	}
	return nil
}

// servers returns where the wait of an owner may be.
func (d *detector) servers(owner string) []driver.Driver {
	var all []driver.Driver
	if first := d.drivers[owner]; first != nil {
		all = append(all, first)
	}
	for _, w := range d.wants {
		if !slices.Contains(all, w.client.driver) {
			all = append(all, w.client.driver)
		}
	}
	return all
}

// look asks which owners hold what the call wants.
func (d *detector) look(ctx context.Context, held []*Lease) error {
	own := make(map[string]bool)
	d.wait.Holds = nil
	for _, l := range held {
		own[l.Owner()] = true
		d.wait.Holds = append(d.wait.Holds, script.HeldLock{LockName: script.LockName{Kind: l.kind, Name: l.name}, Owner: l.Owner()})
	}
	d.wait.By, d.drivers = nil, make(map[string]driver.Driver)
	for _, w := range d.wants {
		owners, _, err := script.Holders(ctx, w.client.driver, w.name)
		if err != nil {
			return err
		}
		for _, owner := range owners {
			if !own[owner] && d.drivers[owner] == nil {
				d.wait.By = append(d.wait.By, owner)
				d.drivers[owner] = w.client.driver
			}
		}
	}
	slices.Sort(d.wait.By)
	return nil
}

// publish publishes the wait, with those that were read, at the servers of the held locks. If
// calls of the client share a hold for reading, they have the same owner, and one
// publication has the waits of all of them.
func (d *detector) publish(ctx context.Context, held []*Lease) error {
	var known []script.Wait
	age := time.Since(d.readAt).Milliseconds() + 1
	for _, id := range sortedKeys(d.waits) {
		w := d.waits[id]
		w.Age += age
		known = append(known, w)
	}
	for _, l := range held {
		d.published[l.Owner()] = l.client
		waits := script.Waits{Wait: d.wait, Known: append(l.client.calls.note(l.Owner(), d.wait), known...)}
		for _, c := range waits.Publish([]string{l.Owner()}, waitLife) {
			if _, err := d.do(ctx, l.client.driver, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// withdraw removes the published wait.
func (d *detector) withdraw() {
	ctx, cancel := context.WithTimeout(context.Background(), waitTime/4)
	defer cancel()
	if len(d.published) == 0 {
		return
	}
	for owner, c := range d.published {
		if !c.calls.forget(owner, d.wait.ID) {
			continue // another call publishes its own wait there
		}
		for _, call := range (script.Waits{}).Publish([]string{owner}, time.Millisecond) {
			_, _ = d.do(ctx, c.driver, call) // otherwise it expires
		}
	}
}

// check looks for a cycle, and reports one that is confirmed.
func (d *detector) check(ctx context.Context) {
	cycle := d.find()
	if !slices.Equal(cycle, d.cycle) {
		d.cycle, d.since, d.reported = cycle, d.wait.Seq+1, false
		return
	}
	if cycle == nil {
		return
	}
	for _, l := range cycle[1:] {
		if d.waits[l.wait].Saw[d.wait.ID] < d.since {
			return
		}
	}
	d.report(ctx)
}

// find returns the shortest cycle that contains the own wait, which comes first, or nil.
func (d *detector) find() []link {
	type step struct {
		wait script.Wait
		path []link
	}
	holders := make(map[string][]string) // by owner: the waits that hold it; several if readers share a hold
	for _, id := range sortedKeys(d.waits) {
		for _, h := range d.waits[id].Holds {
			holders[h.Owner] = append(holders[h.Owner], id)
		}
	}
	for _, ids := range holders { // the latest first: the others may have ended
		slices.SortStableFunc(ids, func(a, b string) int { return cmp.Compare(d.waits[b].Since, d.waits[a].Since) })
	}
	own := make(map[string]bool)
	for _, h := range d.wait.Holds {
		own[h.Owner] = true
	}
	seen := map[string]bool{d.wait.ID: true}
	for queue := []step{{d.wait, nil}}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		for _, by := range s.wait.By {
			if own[by] {
				return append(s.path, link{s.wait.ID, by})
			}
		}
		for _, by := range s.wait.By {
			for _, id := range holders[by] {
				if !seen[id] {
					seen[id] = true
					queue = append(queue, step{d.waits[id], append(slices.Clone(s.path), link{s.wait.ID, by})})
				}
			}
		}
	}
	return nil
}

// report reports the cycle, and ends the call if it is the one to end.
func (d *detector) report(ctx context.Context) {
	waits, ids := []script.Wait{d.wait}, []string{d.wait.ID}
	for _, l := range d.cycle[1:] {
		waits, ids = append(waits, d.waits[l.wait]), append(ids, l.wait)
	}
	last := -1 // the call to end
	for i, w := range waits {
		if w.Ends && (last < 0 || cmp.Or(cmp.Compare(w.Since, waits[last].Since), cmp.Compare(w.ID, waits[last].ID)) > 0) {
			last = i
		}
	}
	first := 0 // where all calls of the cycle begin to describe it
	for i, w := range waits {
		if w.ID < waits[first].ID {
			first = i
		}
	}
	waits = append(waits[first:len(waits):len(waits)], waits[:first]...)
	err := newDeadlockError(waits)
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(ids)), " ")))
	for i := range waits {
		waits[i].Saw = nil
	}
	lock := script.Deadlock{ID: hex.EncodeToString(sum[:8]), Found: time.Now().UnixMicro(), Waits: waits}
	for _, w := range d.wants {
		_, _ = d.do(ctx, w.client.driver, lock.Publish(waitLife)) // for package inspect
		break
	}
	if !d.reported {
		d.reported = true
		d.client.options.Logger.Warn("deadlock: "+strings.TrimPrefix(err.Error(), ErrDeadlock.Error()+": "), "name", d.lease.name)
		d.client.observers.emit(observe.Event{Type: observe.Deadlock, Context: d.lease.parent, Kind: d.lease.kind, Name: d.lease.name, Count: len(waits), Err: err})
	}
	if last == 0 && d.lease.call.abort != nil {
		d.lease.call.abort(err)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
