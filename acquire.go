package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// acquire takes a lock of any kind, or enters it again.
func (c *Client) acquire(ctx context.Context, op, kind, name string, k engine.Kind, s settings, wait time.Duration) (*Lease, error) {
	l := &Lease{
		client: c, kind: kind, name: name,
		renewed: s.lease == 0,
		parent:  ctx, outer: leaseOf(ctx),
	}
	err := s.err
	if err == nil {
		err = c.reenter(ctx, l, s)
	}
	if errors.Is(err, errFresh) {
		l.hold, err = c.engine.Acquire(ctx, k, s.request(wait), (*keeper)(l))
		if err == nil {
			l.pass, l.token = l.hold.Grant()
		}
	}
	if err != nil {
		return nil, &Error{Op: op, Kind: kind, Name: name, Err: err}
	}
	return l, nil
}

// errFresh says that a context does not hold the lock yet.
var errFresh = errors.New("not held by this context")

// reenter makes l one more lease on what ctx already holds.
func (c *Client) reenter(ctx context.Context, l *Lease, s settings) error {
	held := c.find(ctx, l.kind, l.name)
	if held == nil {
		return errFresh
	}
	if s.nonReentrant {
		return ErrReentrant
	}
	l.hold, l.pass, l.token = held.hold, held.pass, held.token
	err := held.hold.Reenter(ctx, held.pass, s.request(engine.Forever), (*keeper)(l))
	switch {
	case errors.Is(err, ErrNotHeld):
		return errFresh // released at this very moment
	case errors.Is(err, ErrLost):
		return held.loss()
	}
	return err
}

// ask puts a question to the server that may be repeated.
func (c *Client) ask(ctx context.Context, op, kind, name string, bad error, question func(context.Context) error) error {
	return c.answer(op, kind, name, bad, func() error { return c.engine.Ask(ctx, question) })
}

// once does something at the server that must not be repeated blindly.
func (c *Client) once(ctx context.Context, op, kind, name string, bad error, deed func(context.Context) error) error {
	return c.answer(op, kind, name, bad, func() error {
		if err := deed(ctx); err != nil {
			return fmt.Errorf("%w: %w", errKind(err), err)
		}
		return nil
	})
}

func (c *Client) answer(op, kind, name string, bad error, call func() error) error {
	err := bad
	if err == nil {
		err = call()
	}
	if err != nil {
		return &Error{Op: op, Kind: kind, Name: name, Err: err}
	}
	return nil
}

// errKind returns the sentinel for an error of the driver.
func errKind(err error) error {
	switch {
	case errors.Is(err, driver.ErrClosed):
		return ErrClosed
	case driver.ClassOf(err) == driver.Fatal:
		return ErrRefused
	}
	return ErrUnavailable
}
