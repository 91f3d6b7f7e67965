package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/numbered"
	"github.com/holdfast-go/holdfast/internal/script"
)

// completeLater sends the order of a numbered request in the background until it is confirmed, for
// at most numbered.Life, and frees the sequence. If the engine is closed, it sends it now, and
// returns false.
func (e *Engine) completeLater(order driver.Call, r numbered.Request) bool {
	return e.settleOwner(settled(order, numbered.Life, func() { e.numbered.Free(&r, "") }))
}

// An Order returns the call of a request that the server executes once.
type Order func(request string) driver.Call

// Once sends an order that the server executes once, even if it is sent several times. It retries
// for a second. If later is not nil, it goes on after the end of ctx, and without an answer the
// engine sends later in the background.
func (e *Engine) Once(ctx context.Context, order, later Order) (driver.Reply, error) {
	if err := e.begin(); err != nil {
		return driver.Reply{}, err
	}
	defer e.end()
	request := e.numbered.Next()
	call := order(request.Name)
	call = script.Spend(call, e.numbered.Spends(&request, call))
	r, sent, err := e.send(ctx, call, later != nil)
	e.refusals.changed(call.Keys)
	switch {
	case err == nil:
		script.Done(call)
		spent := request.Mark
		if sent > 1 {
			spent = ""
		}
		e.numbered.Free(&request, spent)
	case later != nil && !errors.Is(err, ErrRefused):
		if e.completeLater(later(request.Name), request) && errors.Is(err, ErrUnavailable) {
			err = fmt.Errorf("%w: no answer in time; still retrying in the background", ErrUnavailable)
		}
	}
	return r, err
}

// send sends a call until it is answered, for about a second, and returns how often it was sent.
// With regardless, the end of ctx does not stop it, and repeated requests end after 2*releaseTime.
// The driver limits the first one: a context with a deadline would cost more than the call.
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
