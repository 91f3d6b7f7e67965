package engine

import (
	"context"
	"errors"
	"time"
)

// Courtesy towards other processes. A release wakes all who listen, and the
// quickest has the lock; the one that has just released it would mostly be the
// quickest. So it waits for the message like everybody else, and then lets
// those go first that have waited longer: it is late by a step for every
// rival, less one for every time that it was beaten.
const (
	yieldTime = 3 * time.Millisecond // without a message
	yieldStep = 150 * time.Microsecond
	maxRivals = 16
)

// letOthersTry waits a moment, if this process has just released the lock and
// others listen for that.
func (c *acquisition) letOthersTry() error {
	if c.g == nil || c.lightly && !c.traits.FIFO || c.r.Pause != nil || !c.g.yields() {
		return nil
	}
	c.polite = true
	c.join()
	if err := c.wait(yieldTime); errors.Is(err, ErrClosed) {
		return err
	}
	return nil // perhaps out of time, but one look is due
}

// wait waits for a message, but no longer than d.
func (c *acquisition) wait(d time.Duration) error {
	var wake <-chan struct{}
	if w := c.waiter(); w != nil {
		wake = w.Wake()
	}
	woken, err := c.e.sleep(c.waiting, wake, &c.timer, d)
	if late := c.late(); woken && err == nil && late > 0 {
		_, err = c.e.sleep(c.waiting, nil, &c.timer, late)
	}
	if err != nil {
		return gaveUp(err, &c.out, c.remaining())
	}
	c.woken = woken
	return nil
}

// late is how much later than others to ask after a message.
func (c *acquisition) late() time.Duration {
	if !c.polite {
		return 0
	}
	return yieldStep * time.Duration(max(min(c.g.rivals, maxRivals)-c.missed, 0))
}

// sleep waits for wake, but no longer than d.
func (e *Engine) sleep(ctx context.Context, wake <-chan struct{}, timer **time.Timer, d time.Duration) (woken bool, err error) {
	return sleep(ctx, e.closing, wake, timer, d)
}

func sleep(ctx context.Context, closing, wake <-chan struct{}, timer **time.Timer, d time.Duration) (woken bool, err error) {
	if *timer == nil {
		*timer = time.NewTimer(d)
	} else {
		(*timer).Reset(d)
	}
	defer (*timer).Stop()
	select {
	case <-wake:
		return true, nil
	case <-(*timer).C:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-closing:
		return false, ErrClosed
	}
}
