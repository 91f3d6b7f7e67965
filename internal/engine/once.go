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
// its own, and the server remembers the last one, and its answer, of each sequence.
// There are as many lanes as requests under way at a time, so what is to be
// remembered does not grow with their number.

// number returns a sequence that nobody uses and the name of a request in it: the
// engine's id, the sequence, and a number above those of all before.
func (e *Engine) number() (sequence int, request string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.sequences); n > 0 {
		sequence, e.sequences = e.sequences[n-1], e.sequences[:n-1]
	} else {
		sequence = e.nextSequence
		e.nextSequence++
	}
	b := make([]byte, 0, 64)
	b = strconv.AppendInt(append(append(b, e.id...), ':'), int64(sequence), 10)
	return sequence, string(strconv.AppendUint(append(b, ':'), e.owners.Add(1), 10))
}

// reuse gives a sequence back. The sequence of a request that nobody knows the fate of
// is not used before that is known: what the server remembers of it may yet be
// needed.
func (e *Engine) reuse(sequence int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sequences = append(e.sequences, sequence)
}

// A mark is of use while a copy of its request may come. A request that was
// sent once and answered has no other copy, so the next request of its sequence
// deletes its mark: what a client leaves at the server grows with its lanes, not
// with the objects that it uses. In a cluster that needs both in one slot;
// other marks expire.

// spent returns the mark that a call of a sequence may delete.
func (e *Engine) spent(sequence int, mark string) string {
	e.mu.Lock()
	last := e.marks[sequence]
	delete(e.marks, sequence)
	e.mu.Unlock()
	if last == "" || last == mark {
		return ""
	}
	if was, is := e.d.Place(last), e.d.Place(mark); was.Node != is.Node || was.Slot != is.Slot {
		return ""
	}
	return last
}

// answered notes that a request of a sequence was sent once and answered.
func (e *Engine) answered(sequence int, mark string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.marks == nil {
		e.marks = make(map[int]string)
	}
	e.marks[sequence] = mark
}

// orderLife is how long an order is repeated: not as long as the server
// remembers that it was carried out.
const orderLife = script.MarkLife / 2

// completeLater carries out an order in the background, while the server remembers
// requests. It reports whether it will.
func (e *Engine) completeLater(order driver.Call, sequence int) bool {
	now := clock.Now()
	if e.watchdog.ReleaseLater(order, now, now, now+orderLife, func() { e.reuse(sequence) }) {
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
	sequence, request := e.number()
	call := order(request)
	mark := script.MarkOf(call)
	call = script.Spend(call, e.spent(sequence, mark))
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
			e.answered(sequence, mark)
		}
		e.reuse(sequence)
	case later != nil && !errors.Is(err, ErrRefused):
		if e.completeLater(later(request), sequence) && errors.Is(err, ErrUnavailable) {
			err = fmt.Errorf("%w: no answer in time; trying on in the background", ErrUnavailable)
		}
	}
	return r, err
}
