package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// A Want is one of several locks that are to be taken as one.
type Want struct {
	Engine *Engine
	Kind   Kind
	Under  *Hold // see Request
	User   watchdog.LossHandler
	Hold   *Hold // once it is granted
	floor  int64 // the highest token known before it was asked for
}

func (w *Want) release(renewed bool) {
	_ = w.Hold.Release(w.User, renewed)
	w.Hold = nil
}

// AcquireAll takes all wants or none, in an order that is the same for
// everybody. Those of one engine whose keys may share a script are taken by
// one, so that while they are waited for none of them is held.
func AcquireAll(ctx context.Context, wants []*Want, r Request) error {
	limited, calls, cancel := r.limit(ctx)
	defer cancel()
	var out outage
	var timer *time.Timer
	way := multiOrder{patience: moment}
	for {
		planned, err := plan(limited, wants, r)
		if err != nil {
			return overWait(ctx, err)
		}
		units, keep := way.lay(planned)
		// A fixed lease counts from when the last lock was granted, so the
		// others are renewed until then.
		r.Keep = !r.renewed() && len(units) > 1
		n, err := takeAll(calls, limited, units, r, keep)
		if err == nil {
			way.learn(planned)
			return nil
		}
		var again *errAgain
		if errors.As(err, &again) && r.Wait != 0 {
			held := n < len(units) && !errors.Is(again.err, ErrUnavailable) // rather than lost, or not known
			way.strangers = held && units[n].heldByStrangers(limited)
		}
		releaseAll(units[:n], r)
		switch {
		case again == nil:
			if len(wants) > 1 && n < len(units) {
				blame(err, units[n].wants[0])
			}
			return overWait(ctx, err)
		case r.Wait == 0:
			return &Busy{}
		case !errors.Is(again.err, ErrUnavailable):
			out.over()
		case out.note(again.err, again.asked) > r.patience(again.want.Engine):
			return out.error()
		}
		if way.patience == moment { // perhaps the order was wrong
			_, _ = identities(wants, func(e *Engine) (string, error) { return e.recognise(limited, server{}) })
		}
		way.giveWay(planned, again.want)
		// Whoever was woken by what has just been given back goes first.
		if _, err := sleep(limited, nil, nil, &timer, time.Millisecond+rand.N(10*time.Millisecond)); err != nil {
			return overWait(ctx, gaveUp(err, &out, 0))
		}
	}
}

// blame says which of several locks is in the way, unless that is known.
func blame(err error, w *Want) {
	var busy *Busy
	if errors.As(err, &busy) && busy.Key == "" {
		busy.Key = w.Kind.Ref("").Called()
	}
}

// errAgain says that a set has to begin again, and with what.
type errAgain struct {
	want  *Want
	err   error
	asked time.Duration // since when it was asked for
}

func (*errAgain) Error() string { return "begin again" }

// takeAll takes the units one after the other. It returns how many it has
// taken.
func takeAll(calls, limited context.Context, units []unit, r Request, patience time.Duration) (int, error) {
	for i, u := range units {
		if i == 0 || r.Wait == 0 {
			if err := u.take(calls, limited, r); err != nil {
				return i, err
			}
			continue
		}
		asked := clock.Early()
		waiting, cancel := context.WithTimeout(limited, patience/2+rand.N(patience))
		err := u.take(calls, waiting, r)
		over := waiting.Err() != nil
		cancel()
		switch {
		case err == nil:
		case over && limited.Err() == nil && !errors.Is(err, ErrRefused) && !errors.Is(err, ErrClosed):
			return i, &errAgain{u.wants[0], overWait(limited, err), asked}
		default:
			return i, err
		}
	}
	n := len(units)
	for _, u := range units {
		for _, w := range u.wants {
			if !w.Hold.Valid() {
				return n, &errAgain{w, nil, 0} // lost while others were waited for
			}
		}
	}
	if !r.Keep {
		return n, nil
	}
	return n, each(units, func(w *Want) error {
		w.Engine.watchdog.Renew(&w.Hold.Watched, 0)
		pass, _ := w.Hold.Grant()
		err := w.Hold.Prolong(calls, pass, r)
		if errors.Is(err, ErrLost) {
			err = &errAgain{w, nil, 0}
		}
		return err
	})
}

// A unit is what one script can take.
type unit struct {
	e     *Engine
	wants []*Want
}

// plan sorts the wants into units: by server, and there first what the server
// itself keeps a queue for, so that its place is waited for with as little in
// hand as possible.
func plan(ctx context.Context, wants []*Want, r Request) ([]unit, error) {
	servers, err := identities(wants, func(e *Engine) (string, error) {
		return e.identity(ctx, server{}, r.patience(e))
	})
	if err != nil {
		return nil, err
	}
	type place struct {
		slot  int
		queue string // of those that have one each
	}
	where := func(w *Want) place {
		p := place{slot: w.Engine.d.Place(w.Kind.Ref("").Key).Slot}
		if w.Kind.Traits().Queue == script.AtServer {
			p.queue = w.Kind.Gate()
		}
		return p
	}
	sorted := slices.SortedFunc(slices.Values(wants), func(a, b *Want) int {
		pa, pb := where(a), where(b)
		return cmp.Or(
			cmp.Compare(servers[a.Engine], servers[b.Engine]),
			cmp.Compare(boolInt(pa.queue == ""), boolInt(pb.queue == "")),
			cmp.Compare(pa.slot, pb.slot), // nodes change, slots do not
			cmp.Compare(pa.queue, pb.queue),
			cmp.Compare(a.Kind.Gate(), b.Kind.Gate()),
		)
	})
	var units []unit
	for i, w := range sorted {
		if i > 0 && sorted[i-1].Engine == w.Engine && where(sorted[i-1]) == where(w) {
			u := &units[len(units)-1]
			u.wants = append(u.wants, w)
			continue
		}
		units = append(units, unit{w.Engine, []*Want{w}})
	}
	return units, nil
}

// A server is the master at a node in a term. The zero server stands for all
// masters of an engine.
type server struct {
	node string
	term uint64
}

// identity returns the run id of a server, which distinguishes it from all
// others for every client. It waits for an answer as long as patience says.
func (e *Engine) identity(ctx context.Context, s server, patience time.Duration) (string, error) {
	e.mu.Lock()
	id, ok := e.servers[s]
	e.mu.Unlock()
	if ok {
		return id, nil
	}
	if err := e.begin(); err != nil {
		return "", err
	}
	defer e.end()
	err := e.persist(ctx, patience, func(ctx context.Context) (err error) {
		id, err = e.recognise(ctx, s)
		return err
	})
	return id, err
}

// recognise asks a server for its run id. Of all masters it takes the lowest, as
// every client does; those that do not answer are left out. Clients that have
// heard different masters may disagree until they ask again.
func (e *Engine) recognise(ctx context.Context, s server) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var nodes []string
	if s.node != "" {
		nodes = []string{s.node}
	}
	id, known := "", false
	err := driver.Unsent(errors.New("no server is known now"))
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
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.servers, func(old server, _ string) bool { return old.node == s.node })
	e.servers[s] = id
	return id, nil
}

func (u unit) take(calls, waiting context.Context, r Request) error {
	e := u.e
	if err := e.begin(); err != nil {
		return err
	}
	defer e.end()
	once := r.Wait == 0
	if len(u.wants) == 1 {
		w := u.wants[0]
		r.Under = w.Under
		a := acquisition{e: e, k: w.Kind, traits: w.Kind.Traits(), r: r, waiting: waiting, asking: calls, once: once}
		var err error
		w.Hold, err = a.run(w.Kind, w.User)
		return err
	}
	k := group(u.wants)
	a := acquisition{e: e, k: k, traits: k.Traits(), r: r, waiting: waiting, asking: calls, once: once}
	if !once {
		a.g = e.gate(k.Gate())
		defer e.leave(a.g)
	}
	return a.runGroup(u.wants)
}

// releaseAll gives back what was taken, all at once.
func releaseAll(units []unit, r Request) {
	_ = each(units, func(w *Want) error {
		if w.Hold != nil {
			w.release(r.renewed())
		}
		return nil
	})
}

// heldByStrangers reports whether one of the locks is held by somebody who may
// take his locks in any order: not by a client of this library.
func (u unit) heldByStrangers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for _, w := range u.wants {
		owners, err := script.Holders(ctx, u.e.d, w.Kind.Ref("").Key)
		if err == nil && slices.ContainsFunc(owners, func(owner string) bool { return !ours(owner) }) {
			return true
		}
	}
	return false
}

// each calls f for all wants at once and returns the first error.
func each(units []unit, f func(*Want) error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	for _, u := range units {
		for _, w := range u.wants {
			wg.Go(func() {
				if err := f(w); err != nil {
					mu.Lock()
					defer mu.Unlock()
					first = cmp.Or(first, err)
				}
			})
		}
	}
	wg.Wait()
	return first
}

// identities returns what distinguishes the servers of each engine, which ask
// returns. One engine alone needs nothing of that kind.
func identities(wants []*Want, ask func(*Engine) (string, error)) (map[*Engine]string, error) {
	ids := make(map[*Engine]string)
	for _, w := range wants {
		ids[w.Engine] = ""
	}
	if len(ids) == 1 {
		return ids, nil
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	for _, e := range slices.Collect(maps.Keys(ids)) {
		wg.Go(func() {
			id, err := ask(e)
			mu.Lock()
			defer mu.Unlock()
			ids[e], first = id, cmp.Or(first, err)
		})
	}
	wg.Wait()
	return ids, first
}
