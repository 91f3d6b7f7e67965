package deadlock

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
	"github.com/holdfast-go/holdfast/internal/script"
)

const (
	waitEvery = time.Second      // between two publications of a wait
	waitLife  = 10 * time.Second // how long the server keeps one
	waitTime  = time.Second      // for the requests of one round
	copyLife  = 5 * time.Second  // for how long clients pass on the copy of a wait
	maxLooks  = 64               // how many waits one round reads
)

// A Detector looks for a deadlock of one call that waits.
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
type Detector struct {
	call Call
	wait script.Wait

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

// New returns a detector for a call.
func New(c Call) *Detector {
	d := &Detector{call: c, published: make(map[string]*Client)}
	d.wait = script.Wait{
		ID: fmt.Sprintf("%s:%d", c.Client.ID, c.Client.number.Add(1)), Since: c.Since.UnixMicro(),
		Client: c.Client.ID, Who: c.Client.Who, Ends: c.Client.Ends,
	}
	for _, w := range c.Wants {
		d.wait.Wants = append(d.wait.Wants, script.LockName{Kind: w.Kind, Name: w.Name})
	}
	return d
}

// Run looks for deadlocks until ctx is done, or until the call holds nothing.
func (d *Detector) Run(ctx context.Context) {
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
func (d *Detector) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	if err := d.read(ctx); err != nil {
		return err
	}
	d.wait.Saw = make(map[string]int)
	for id, w := range d.waits {
		d.wait.Saw[id] = w.Seq
	}
	held := d.call.Holds()
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
func (d *Detector) do(ctx context.Context, to driver.Driver, c driver.Call) (driver.Reply, error) {
	r, err := to.Do(ctx, c)
	if err != nil && driver.ClassOf(err) == driver.Fatal {
		err = fmt.Errorf("%w: %w", errNoDetection, err)
	}
	return r, err
}

// read reads the waits of all owners that block this call, directly or not.
func (d *Detector) read(ctx context.Context) error {
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
func (d *Detector) servers(owner string) []driver.Driver {
	var all []driver.Driver
	if first := d.drivers[owner]; first != nil {
		all = append(all, first)
	}
	for _, w := range d.call.Wants {
		if !slices.Contains(all, w.Client.Driver) {
			all = append(all, w.Client.Driver)
		}
	}
	return all
}

// look asks which owners hold what the call wants.
func (d *Detector) look(ctx context.Context, held []Lock) error {
	own := make(map[string]bool)
	d.wait.Holds = nil
	for _, l := range held {
		own[l.Owner] = true
		d.wait.Holds = append(d.wait.Holds, script.HeldLock{LockName: script.LockName{Kind: l.Kind, Name: l.Name}, Owner: l.Owner})
	}
	d.wait.By, d.drivers = nil, make(map[string]driver.Driver)
	for _, w := range d.call.Wants {
		owners, _, err := script.Holders(ctx, w.Client.Driver, w.Name)
		if err != nil {
			return err
		}
		for _, owner := range owners {
			if !own[owner] && d.drivers[owner] == nil {
				d.wait.By = append(d.wait.By, owner)
				d.drivers[owner] = w.Client.Driver
			}
		}
	}
	slices.Sort(d.wait.By)
	return nil
}

// publish publishes the wait, with those that were read, at the servers of the held locks. If
// calls of the client share a hold for reading, they have the same owner, and one
// publication has the waits of all of them.
func (d *Detector) publish(ctx context.Context, held []Lock) error {
	var known []script.Wait
	age := time.Since(d.readAt).Milliseconds() + 1
	for _, id := range sortedKeys(d.waits) {
		w := d.waits[id]
		w.Age += age
		known = append(known, w)
	}
	for _, l := range held {
		d.published[l.Owner] = l.Client
		waits := script.Waits{Wait: d.wait, Known: append(l.Client.note(l.Owner, d.wait), known...)}
		for _, c := range waits.Publish([]string{l.Owner}, waitLife) {
			if _, err := d.do(ctx, l.Client.Driver, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// withdraw removes the published wait.
func (d *Detector) withdraw() {
	ctx, cancel := context.WithTimeout(context.Background(), waitTime/4)
	defer cancel()
	if len(d.published) == 0 {
		return
	}
	for owner, c := range d.published {
		if !c.forget(owner, d.wait.ID) {
			continue // another call publishes its own wait there
		}
		for _, call := range (script.Waits{}).Publish([]string{owner}, time.Millisecond) {
			_, _ = d.do(ctx, c.Driver, call) // otherwise it expires
		}
	}
}

// check looks for a cycle, and reports one that is confirmed.
func (d *Detector) check(ctx context.Context) {
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
func (d *Detector) find() []link {
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
func (d *Detector) report(ctx context.Context) {
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
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(ids)), " ")))
	for i := range waits {
		waits[i].Saw = nil
	}
	lock := script.Deadlock{ID: hex.EncodeToString(sum[:8]), Found: time.Now().UnixMicro(), Waits: waits}
	_, _ = d.do(ctx, d.call.Wants[0].Client.Driver, lock.Publish(waitLife)) // for package inspect
	d.call.Found(Cycle{waits, !d.reported, last == 0})
	d.reported = true
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
