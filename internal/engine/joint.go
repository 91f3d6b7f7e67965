package engine

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// A Departure is the release of a hold for one user, as one of several.
type Departure struct {
	Hold    *Hold
	User    watchdog.LossHandler
	Renewed bool
	Err     error // set by ReleaseAll: what Hold.Release would return
}

// ReleaseAll releases holds as Hold.Release does, with few requests. It may change their order.
func ReleaseAll(all []Departure) {
	slices.SortStableFunc(all, func(a, b Departure) int { return cmp.Compare(a.Hold.e.owners.id, b.Hold.e.owners.id) })
	eachRun(all, func(a, b *Departure) bool { return a.Hold.e == b.Hold.e }, releaseOfEngine)
}

// eachRun calls f for each run of elements that are the same, concurrently.
func eachRun[T any](all []T, same func(a, b *T) bool, f func([]T)) {
	var wg *sync.WaitGroup
	for len(all) > 0 {
		n := 1
		for n < len(all) && same(&all[0], &all[n]) {
			n++
		}
		run := all[:n]
		if all = all[n:]; len(all) == 0 {
			f(run)
			break
		}
		if wg == nil {
			wg = new(sync.WaitGroup)
			defer wg.Wait()
		}
		wg.Go(func() { f(run) })
	}
}

// A joint is the ending of a hold that travels with others.
type joint struct {
	ending
	d     *Departure
	call  driver.Call
	place driver.Place
	first answer
}

func releaseOfEngine(all []Departure) {
	e := all[0].Hold.e
	if err := e.begin(); err != nil {
		<-e.life.done // Close frees the locks
		for i := range all {
			all[i].Err = ErrLost
		}
		return
	}
	defer e.end()
	var others sync.WaitGroup
	defer others.Wait()
	ends := make([]joint, 0, len(all))
	for i := range all {
		d := &all[i]
		if !d.Hold.nest.tryLock() {
			others.Go(d.release) // it waits for a claim
			continue
		}
		if d.Hold.nest.count > 1 {
			d.Hold.nest.Unlock()
			others.Go(d.release)
			continue
		}
		f, ok, err := d.Hold.depart(d.User, d.Renewed)
		if !ok {
			d.Hold.nest.Unlock()
			d.Err = err
			continue
		}
		if f.kept {
			others.Go((&joint{ending: f, d: d}).complete)
			continue
		}
		ends = append(ends, joint{ending: f, d: d, call: e.withAllowedQueue(f.h.kind).Free(f.h.owner), place: e.d.Place(f.h.Ref.Key)})
	}
	slices.SortStableFunc(ends, func(a, b joint) int {
		return cmp.Or(cmp.Compare(a.place.Node, b.place.Node), cmp.Compare(a.place.Slot, b.place.Slot), cmp.Compare(a.call.Script.Name, b.call.Script.Name))
	})
	eachRun(ends, func(a, b *joint) bool { return a.place.Node == b.place.Node }, e.endTogether)
}

// release releases the hold by a request of its own.
func (d *Departure) release() { d.Err = d.Hold.Release(d.User, d.Renewed) }

// complete completes the release, with a request of its own if there is no answer.
func (j *joint) complete() {
	j.d.Err = j.run(j.first)
	j.h.nest.Unlock()
}

var batchPool = sync.Pool{New: func() any { return new(script.Batch) }}

// endTogether ends holds on one node with one request. A hold whose call fails is ended alone.
func (e *Engine) endTogether(ends []joint) {
	batches := make([]*script.Batch, 0, 1)
	for i := range ends {
		last := len(batches) - 1
		if i == 0 || !ends[i-1].fits(&ends[i]) || batches[last].Len() == script.MaxBatch {
			batches = append(batches, batchPool.Get().(*script.Batch))
			last++
		}
		batches[last].Add(ends[i].call)
	}
	sent := clock.Early()
	results := e.doAll(batches)
	rest := ends
	for k, b := range batches {
		some := rest[:b.Len()]
		rest = rest[b.Len():]
		reply, err := results[k].Reply, results[k].Err
		if err == nil {
			err = b.Decode(reply, func(i int, r driver.Reply, failed bool) { some[i].answered(sent, r, failed) })
		}
		// If the server has refused the batch, this may be because of one of its keys.
		if err != nil && driver.CodeOf(err) == "" {
			for i := range some {
				some[i].first = answer{sent: sent, known: true, err: err}
			}
		}
		b.Reset()
		batchPool.Put(b)
	}
	var others sync.WaitGroup
	for i := range ends {
		j := &ends[i]
		script.Done(j.call)
		if j.first.known && j.first.err == nil {
			j.complete()
		} else {
			others.Go(j.complete)
		}
	}
	others.Wait()
}

func (j *joint) fits(k *joint) bool {
	return j.place.Slot == k.place.Slot && script.CanBatch(j.call) && script.Alike(j.call, k.call)
}

// answered takes in the reply to a call in a batch. A failed one may have been executed in part.
func (j *joint) answered(sent time.Duration, r driver.Reply, failed bool) {
	if failed {
		j.first = answer{doubt: true}
		return
	}
	freed, err := script.DecodeFreed(j.call, r)
	j.first = answer{sent: sent, known: true, freed: freed, err: err}
}

// doAll runs batches on one node.
func (e *Engine) doAll(batches []*script.Batch) []driver.Result {
	if len(batches) == 1 {
		r, err := e.d.Do(context.Background(), batches[0].Call())
		return []driver.Result{{Reply: r, Err: err}}
	}
	calls := make([]driver.Call, len(batches))
	for i, b := range batches {
		calls[i] = b.Call()
	}
	return e.d.DoMany(context.Background(), calls)
}
