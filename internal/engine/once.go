package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Most requests can be sent again because of what they leave at the server:
// whoever asks for a lock that he holds already has it. Where nothing of that
// kind remains, as when a number is raised by one, a request has a number of
// its own, and the server remembers the last one, and its answer, of each lane.
// There are as many lanes as requests under way at a time, so what is to be
// remembered does not grow with their number.

// number returns a lane that nobody uses and the name of a request in it: the
// engine's id, the lane, and a number above those of all before.
func (e *Engine) number() (lane int, request string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.lanes); n > 0 {
		lane, e.lanes = e.lanes[n-1], e.lanes[:n-1]
	} else {
		lane = e.lane
		e.lane++
	}
	b := make([]byte, 0, 64)
	b = strconv.AppendInt(append(append(b, e.id...), ':'), int64(lane), 10)
	return lane, string(strconv.AppendUint(append(b, ':'), e.owners.Add(1), 10))
}

// reuse gives a lane back. The lane of a request that nobody knows the fate of
// is not used before that is known: what the server remembers of it may yet be
// needed.
func (e *Engine) reuse(lane int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lanes = append(e.lanes, lane)
}

// A mark is of use while a copy of its request may come. A request that was
// sent once and answered has no other copy, so the next request of its lane
// deletes its mark: what a client leaves at the server grows with its lanes, not
// with the objects that it uses. In a cluster that needs both in one slot;
// other marks expire.

// spent returns the mark that a call of a lane may delete.
func (e *Engine) spent(lane int, mark string) string {
	e.mu.Lock()
	last := e.marks[lane]
	delete(e.marks, lane)
	e.mu.Unlock()
	if last == "" || last == mark {
		return ""
	}
	if was, is := e.d.Place(last), e.d.Place(mark); was.Node != is.Node || was.Slot != is.Slot {
		return ""
	}
	return last
}

// answered notes that a request of a lane was sent once and answered.
func (e *Engine) answered(lane int, mark string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.marks == nil {
		e.marks = make(map[int]string)
	}
	e.marks[lane] = mark
}

// orderLife is how long an order is repeated: not as long as the server
// remembers that it was carried out.
const orderLife = script.MarkLife / 2

// bury carries out an order in the background, while the server remembers
// requests. It reports whether it will.
func (e *Engine) bury(order driver.Call, lane int) bool {
	now := clock.Now()
	if e.dog.Bury(order, now, now, now+orderLife, func() { e.reuse(lane) }) {
		return true
	}
	e.free(releaseTime, []driver.Call{order}) // closed: now or never
	return false
}

// An Order makes the call of a request that the server carries out once.
type Order func(request string) driver.Call

// Once gives an order that the server carries out once, however often it has to
// be sent. It is tried for a second. If there is something to be done later,
// then also although ctx is done, and after that, as this, in the background.
func (e *Engine) Once(ctx context.Context, order, later Order) (driver.Reply, error) {
	if err := e.begin(); err != nil {
		return driver.Reply{}, err
	}
	defer e.end()
	if later != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 2*releaseTime)
		defer cancel()
	}
	lane, request := e.number()
	call := order(request)
	mark := script.MarkOf(call)
	call = script.Spend(call, e.spent(lane, mark))
	var r driver.Reply
	sent := 0
	err := e.ask(ctx, true, func(ctx context.Context) (err error) {
		sent++
		r, err = e.d.Do(ctx, call)
		return err
	})
	switch {
	case err == nil:
		if sent == 1 {
			e.answered(lane, mark)
		}
		e.reuse(lane)
	case later != nil && !errors.Is(err, ErrRefused):
		if e.bury(later(request), lane) && errors.Is(err, ErrUnavailable) {
			err = fmt.Errorf("%w: no answer in time; trying on in the background", ErrUnavailable)
		}
	}
	return r, err
}
