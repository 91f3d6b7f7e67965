package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// A Want is one of several locks that are acquired together.
type Want struct {
	Engine *Engine
	Kind   Kind
	Under  *Hold // see Request
	User   watchdog.LossHandler
	Hold   *Hold // set when the lock is granted

	slot  int
	queue string // the gate of a lock that has a group of its own, because its script acquires no others
	alone bool   // it has a group of its own, because its former group did not get it: see multi_queue.go
	mutex bool
	floor int64 // the highest token known before the request
}

// locate sets what plan needs to know.
func (w *Want) locate(r Request) {
	claim := w.Kind.Claim(script.Claim{Count: 1, Lease: r.lease(w.Engine)})
	w.slot, w.queue, w.mutex = w.Engine.d.Place(w.Kind.Ref("").Key).Slot, "", script.IsMutex(claim)
	if !script.CanGroup(claim) {
		w.queue = w.Kind.Gate()
	}
	script.Done(claim)
}

// AcquireAll acquires all wants or none, in an order that is the same for all clients. One script
// acquires the wants of one engine whose keys are in the same slot, so none of them is held while
// the call waits for the others. If they are in use for long, the call queues for them one by one.
func AcquireAll(ctx context.Context, wants []*Want, r Request) error {
	limited, calls, cancel := contexts(ctx, r.Wait)
	defer cancel()
	var out outage
	order := multiOrder{patience: firstPatience}
	defer order.leaveGates()
	for {
		planned, err := plan(limited, wants, r)
		if err != nil {
			releaseWithin(timeToWithdraw(calls, limited), departures(wants, r.renewed()))
			return hideOwnTimeout(ctx, err)
		}
		groups, patience := order.arrange(planned)
		// A fixed lease starts when the last lock is granted. Until then, the others are renewed.
		r.RenewFirst = !r.renewed() && len(groups) > 1
		n, err := takeAll(calls, limited, groups, r, patience, order.isCommon())
		if err == nil {
			order.learn(planned)
			return nil
		}
		if errors.Is(err, errDivide) {
			order.divide(planned, groups, n)
			continue // what was granted before is in order
		}
		var restart *errRestart
		if errors.As(err, &restart) && r.Wait != 0 {
			order.foreign = restart.foreign
			if n < len(groups) && !errors.Is(restart.err, ErrUnavailable) && !restart.granted { // it is held, neither lost nor unknown
				owners, _ := groups[n].holders(limited)
				order.foreign = order.foreign || slices.ContainsFunc(owners, isForeign) // which acquires in any order
			}
		}
		switch {
		case restart == nil:
			releaseWithin(timeToWithdraw(calls, limited), departures(wants, r.renewed()))
			var busy *Busy
			if len(wants) > 1 && n < len(groups) && errors.As(err, &busy) {
				busy.Key = cmp.Or(busy.Key, groups[n].wants[0].Kind.Ref("").Called())
			}
			return hideOwnTimeout(ctx, err)
		case !restart.granted:
			ReleaseAll(departures(wants, r.renewed()))
		}
		switch {
		case r.Wait == 0:
			return &Busy{}
		case !errors.Is(restart.err, ErrUnavailable):
			out.over()
		case out.note(restart.err, restart.asked) > r.patience(restart.want.Engine):
			return out.error()
		}
		if order.patience == firstPatience { // the run ids that determine the order may have changed
			_, _ = runIDs(wants, func(e *Engine) (string, error) { return e.fetchRunID(limited, server{}) })
		}
		order.chooseStart(planned, restart)
		if restart.granted {
			continue
		}
		// Clients that wait for the released locks go first.
		if _, err := sleep(limited, nil, nil, time.Millisecond+clock.Random(10*time.Millisecond)); err != nil {
			return hideOwnTimeout(ctx, gaveUp(err, &out, 0))
		}
	}
}

// errRestart says that AcquireAll must release all locks and start again.
type errRestart struct {
	want    *Want         // the lock that was not granted, or was lost
	err     error         // why it was not granted; nil if it was lost, or granted
	asked   time.Duration // when it was first requested
	granted bool          // it was granted after the others were released, and is kept
	foreign bool          // a foreign client held it
}

func (*errRestart) Error() string { return "start again" }

// takeAll acquires the groups one after the other. It returns how many it has acquired. It waits
// for the first group without a limit, and for each other group for about the patience. In the
// common order, it keeps its place in the queue after that, and releases the others.
func takeAll(calls, limited context.Context, groups []group, r Request, patience time.Duration, common bool) (int, error) {
	for i := range groups {
		g := &groups[i]
		g.divisible, g.whole = i == 0 || common, len(groups) == 1
		var err error
		switch {
		case g.wants[0].Hold != nil: // of an earlier attempt
		case i == 0 || r.Wait == 0:
			err = g.take(calls, limited, r)
		case common && g.queues(r):
			err = g.takeBehind(calls, limited, r, groups[:i], patience)
		default:
			asked := clock.Early()
			waiting, cancel := context.WithTimeout(limited, patience/2+clock.Random(patience))
			err = g.take(calls, waiting, r)
			over := waiting.Err() != nil && limited.Err() == nil
			cancel()
			if err != nil && over && !errors.Is(err, ErrRefused) && !errors.Is(err, ErrClosed) && !errors.Is(err, errDivide) {
				err = &errRestart{want: g.wants[0], err: hideOwnTimeout(limited, err), asked: asked}
			}
		}
		if err != nil {
			return i, err
		}
	}
	n := len(groups)
	var wants []*Want
	for _, g := range groups {
		wants = append(wants, g.wants...)
	}
	for _, w := range wants {
		if !w.Hold.Valid() {
			return n, &errRestart{want: w} // lost during the wait for other locks
		}
	}
	if !r.RenewFirst {
		return n, nil
	}
	return n, each(wants, func(w *Want) error {
		w.Engine.watchdog.Renew(&w.Hold.Watched, 0)
		pass, _ := w.Hold.Current()
		err := w.Hold.Prolong(calls, pass, r)
		if errors.Is(err, ErrLost) {
			err = &errRestart{want: w}
		}
		return err
	})
}

// plan sorts the wants into groups: by server, and for one server first the locks whose queue the
// server keeps, so that the call holds few others while it waits there.
func plan(ctx context.Context, wants []*Want, r Request) ([]group, error) {
	servers, err := runIDs(wants, func(e *Engine) (string, error) { return e.runID(ctx, server{}, r.patience(e)) })
	if err != nil {
		return nil, err
	}
	for _, w := range wants {
		w.locate(r)
	}
	sorted := slices.Clone(wants)
	slices.SortFunc(sorted, func(a, b *Want) int {
		return cmp.Or(
			cmp.Compare(servers[a.Engine], servers[b.Engine]),
			cmp.Compare(boolInt(a.queue == ""), boolInt(b.queue == "")),
			cmp.Compare(a.slot, b.slot), // not by node, because slots move between nodes
			cmp.Compare(a.queue, b.queue),
			cmp.Compare(a.Kind.Gate(), b.Kind.Gate()),
		)
	})
	var groups []group
	for len(sorted) > 0 {
		g := group{e: sorted[0].Engine, mutexes: true}
		for _, w := range sorted {
			if w.Engine != g.e || w.slot != sorted[0].slot || w.queue != sorted[0].queue || len(g.wants) > 0 && (w.alone || sorted[0].alone) {
				break
			}
			g.mutexes = g.mutexes && w.mutex
			g.wants = sorted[:len(g.wants)+1]
		}
		groups = append(groups, g)
		sorted = sorted[len(g.wants):]
	}
	return groups, nil
}

// A server is the master at a node in a term. The zero server means all masters of an engine.
type server struct {
	node string
	term uint64
}

// servers are the run ids of the servers, as far as they are known.
type servers struct {
	mu     sync.Mutex
	runIDs map[server]string
}

// runID returns the run id of a server, which is the same for all clients. If it is not known yet,
// runID asks the server, for as long as patience says.
func (e *Engine) runID(ctx context.Context, s server, patience time.Duration) (string, error) {
	e.servers.mu.Lock()
	id, ok := e.servers.runIDs[s]
	e.servers.mu.Unlock()
	if ok {
		return id, nil
	}
	if err := e.begin(); err != nil {
		return "", err
	}
	defer e.end()
	err := e.retry(ctx, patience, func(ctx context.Context) (err error) {
		id, err = e.fetchRunID(ctx, s)
		return err
	})
	return id, err
}

// fetchRunID asks a server for its run id. For all masters of an engine, it returns the lowest one
// of those that answer. So two clients may disagree until they ask again.
func (e *Engine) fetchRunID(ctx context.Context, s server) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var nodes []string
	if s.node != "" {
		nodes = []string{s.node}
	}
	id, known := "", false
	err := driver.Unsent(errors.New("no server is known"))
	for _, f := range e.d.Facts(ctx, nodes...) {
		switch {
		case f.Err != nil:
			err = f.Err
		case !known || f.RunID < id:
			id, known = f.RunID, true
		}
	}
	if !known {
		return "", err
	}
	e.servers.mu.Lock()
	defer e.servers.mu.Unlock()
	maps.DeleteFunc(e.servers.runIDs, func(old server, _ string) bool { return old.node == s.node })
	e.servers.runIDs[s] = id
	return id, nil
}

// departures takes all holds out of the wants, to release them.
func departures(wants []*Want, renewed bool) (all []Departure) {
	for _, w := range wants {
		if w.Hold != nil {
			all = append(all, Departure{Hold: w.Hold, User: w.User, Renewed: renewed})
			w.Hold = nil
		}
	}
	return all
}

// releaseWithin releases holds. If this takes longer than d, it goes on in the background.
func releaseWithin(d time.Duration, all []Departure) {
	if len(all) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ReleaseAll(all)
	}()
	select {
	case <-done:
	case <-time.After(d):
	}
}

// holders returns the owners that hold the locks of a group, and whether the server has told all.
func (g *group) holders(ctx context.Context) (owners []string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	ok = true
	for _, w := range g.wants {
		some, _, err := script.Holders(ctx, g.e.d, w.Kind.Ref("").Key)
		owners, ok = append(owners, some...), ok && err == nil
	}
	return owners, ok
}

// each calls f for all elements concurrently and returns the first error.
func each[T any](all []T, f func(T) error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	for _, v := range all {
		wg.Go(func() {
			if err := f(v); err != nil {
				mu.Lock()
				defer mu.Unlock()
				first = cmp.Or(first, err)
			}
		})
	}
	wg.Wait()
	return first
}

// runIDs returns the run id for each engine, as ask returns it, if there are several.
func runIDs(wants []*Want, ask func(*Engine) (string, error)) (map[*Engine]string, error) {
	if !slices.ContainsFunc(wants, func(w *Want) bool { return w.Engine != wants[0].Engine }) {
		return nil, nil
	}
	ids := make(map[*Engine]string)
	for _, w := range wants {
		ids[w.Engine] = ""
	}
	var mu sync.Mutex
	err := each(slices.Collect(maps.Keys(ids)), func(e *Engine) error {
		id, err := ask(e)
		mu.Lock()
		defer mu.Unlock()
		ids[e] = id
		return err
	})
	return ids, err
}
