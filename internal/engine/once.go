package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Most requests can be sent twice because of what they store at the server: a claim for a
// lock that the owner already holds is granted. Other requests, such as raising a number
// by one, store nothing of that kind. Such a request has a number in a sequence. The
// server keeps a mark for each sequence: its last number, and the answer. There are as
// many sequences as requests under way at the same time, so the number of marks does not
// grow with the number of requests.

// sequences are the sequences of a client.
type sequences struct {
	mu    sync.Mutex
	free  []int // those below next that are not in use
	next  int
	marks map[int]string // by sequence: the mark of a request that was sent once and answered
}

// newRequest returns a sequence that is not in use, and the name of a new request in it:
// the engine's id, the sequence, and a number that is higher than all earlier ones.
func (e *Engine) newRequest() (sequence int, request string) {
	e.sequences.mu.Lock()
	defer e.sequences.mu.Unlock()
	if n := len(e.sequences.free); n > 0 {
		sequence, e.sequences.free = e.sequences.free[n-1], e.sequences.free[:n-1]
	} else {
		sequence = e.sequences.next
		e.sequences.next++
	}
	b := make([]byte, 0, 64)
	b = strconv.AppendInt(append(append(b, e.id...), ':'), int64(sequence), 10)
	return sequence, string(strconv.AppendUint(append(b, ':'), e.owners.Add(1), 10))
}

// freeSequence makes a sequence available again. If it is unknown whether a request was
// executed, its sequence must not be freed: a new request would replace its mark.
func (e *Engine) freeSequence(sequence int) {
	e.sequences.mu.Lock()
	defer e.sequences.mu.Unlock()
	e.sequences.free = append(e.sequences.free, sequence)
}

// A mark is needed while a second copy of its request may arrive. A request that was sent
// once and answered has no second copy. So the next request of its sequence deletes its
// mark. The number of marks of a client therefore grows with its sequences, not with the
// objects that it uses. In a cluster, both requests must be in one slot for this. Other
// marks expire.

// takeSpentMark returns the mark that the next call of a sequence can delete, or "".
func (e *Engine) takeSpentMark(sequence int, mark string) string {
	e.sequences.mu.Lock()
	last := e.sequences.marks[sequence]
	delete(e.sequences.marks, sequence)
	e.sequences.mu.Unlock()
	if last == "" || last == mark {
		return ""
	}
	if was, is := e.d.Place(last), e.d.Place(mark); was.Node != is.Node || was.Slot != is.Slot {
		return ""
	}
	return last
}

// saveSpentMark saves the mark of a request that was sent once and answered.
func (e *Engine) saveSpentMark(sequence int, mark string) {
	e.sequences.mu.Lock()
	defer e.sequences.mu.Unlock()
	if e.sequences.marks == nil {
		e.sequences.marks = make(map[int]string)
	}
	e.sequences.marks[sequence] = mark
}

// orderLife is how long an order is repeated. It is shorter than the life of its mark, so
// that it is not executed twice.
const orderLife = script.MarkLife / 2

// completeLater sends an order in the background until the server confirms it, for at
// most orderLife. Then it frees the sequence. If the engine is closed, it sends the
// order now and returns false.
func (e *Engine) completeLater(order driver.Call, sequence int) bool {
	return e.settleOwner(settled(order, orderLife, func() { e.freeSequence(sequence) }))
}

// An Order returns the call of a request that the server executes once.
type Order func(request string) driver.Call

// Once sends an order that the server executes once, even if it is sent several times. It
// retries for a second. If later is not nil, the end of ctx does not stop it, and if there
// is no answer, the engine sends later in the background.
func (e *Engine) Once(ctx context.Context, order, later Order) (driver.Reply, error) {
	if err := e.begin(); err != nil {
		return driver.Reply{}, err
	}
	defer e.end()
	sequence, request := e.newRequest()
	call := order(request)
	mark := script.MarkOf(call)
	call = script.Spend(call, e.takeSpentMark(sequence, mark))
	r, sent, err := e.send(ctx, call, later != nil)
	e.refusals.changed(call.Keys)
	switch {
	case err == nil:
		script.Done(call)
		if sent == 1 {
			e.saveSpentMark(sequence, mark)
		}
		e.freeSequence(sequence)
	case later != nil && !errors.Is(err, ErrRefused):
		if e.completeLater(later(request), sequence) && errors.Is(err, ErrUnavailable) {
			err = fmt.Errorf("%w: no answer in time; still retrying in the background", ErrUnavailable)
		}
	}
	return r, err
}

// send sends a call until it is answered, for about a second, and returns how often it was
// sent. If regardless is set, the end of ctx does not stop it, and repeated requests end
// after 2*releaseTime. The driver limits the first one: a context with a deadline would
// cost more than the call.
func (e *Engine) send(ctx context.Context, call driver.Call, regardless bool) (r driver.Reply, sent int, err error) {
	var ends time.Time
	if regardless {
		ends = time.Now().Add(2 * releaseTime)
		if ctx.Done() != nil {
			ctx = context.WithoutCancel(ctx)
		}
	}
	err = e.retry(ctx, askPatience, func(ctx context.Context) (err error) {
		if sent++; sent > 1 && regardless {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, ends)
			defer cancel()
		}
		r, err = e.d.Do(ctx, call)
		return err
	})
	return r, sent, err
}
