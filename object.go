package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// An object is what all named things have in common.
type object struct {
	client *Client
	kind   string // as errors call it
	name   string
	set    settings
}

func newObject(c *Client, kind, name string, opts []Option) object {
	o := object{client: c, kind: kind, name: name, set: settings{}.with(opts)}
	if err := script.CheckName(name); err != nil {
		o.set.fail(invalid("%w", err))
	}
	return o
}

// Name returns the name of the lock.
func (o *object) Name() string { return o.name }

// acquire takes a lock, or enters again what ctx already holds.
func (o *object) acquire(ctx context.Context, op string, k engine.Kind, wait time.Duration, opts []Option) (*Lease, error) {
	s := o.set.with(opts)
	if s.err != nil {
		return nil, o.fail(op, s.err)
	}
	l := &Lease{
		client: o.client, kind: o.kind, name: o.name,
		renewed: s.lease == 0,
		parent:  ctx, outer: leaseOf(ctx),
	}
	entered, err := l.enter(ctx, s.request(wait), s.nonReentrant)
	if !entered && err == nil {
		l.hold, err = o.client.engine.Acquire(ctx, k, s.request(wait), (*keeper)(l))
	}
	if err != nil {
		return nil, o.fail(op, err)
	}
	if !entered {
		l.pass, l.token = l.hold.Grant()
	}
	return l, nil
}

// enter makes l one more lease on what ctx already holds. It reports whether
// ctx does.
func (l *Lease) enter(ctx context.Context, r engine.Request, nonReentrant bool) (bool, error) {
	held := l.client.find(ctx, l.kind, l.name)
	if held == nil {
		return false, nil
	}
	if nonReentrant {
		return false, ErrReentrant
	}
	l.hold, l.pass, l.token = held.hold, held.pass, held.token
	err := l.hold.Reenter(ctx, l.pass, r, (*keeper)(l))
	switch {
	case errors.Is(err, ErrNotHeld): // released at this very moment
		return false, nil
	case errors.Is(err, ErrLost):
		return false, l.loss()
	}
	return err == nil, err
}

// ask puts a question to the server, or gives an order that must not be
// repeated blindly.
func (o *object) ask(ctx context.Context, op string, repeat bool, question func(context.Context) error) error {
	err := o.set.err
	if err == nil {
		err = o.client.engine.Ask(ctx, repeat, question)
	}
	if err != nil {
		return o.fail(op, err)
	}
	return nil
}

// fail says what failed. A loss says enough by itself.
func (o *object) fail(op string, err error) error {
	var lost *LostError
	if errors.As(err, &lost) {
		return lost
	}
	return &Error{Op: op, Kind: o.kind, Name: o.name, Err: err}
}
