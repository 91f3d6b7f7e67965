package holdfast

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// named is the common part of all objects with a name.
type named struct {
	client *Client
	kind   string // as in errors and in script.Kinds
	given  string // the name that the program uses
	name   string // the name at the server: given, with the prefix of the client
	beside string // the kind whose lease in the context admits this one; "": none
	never  string // the kind whose lease in the context excludes this one; "": none

	steady  bool // it is meant to be held for long
	repeats bool // acquiring it again takes more of it, as with permits
	set     settings

	creates func(ctx context.Context, missing bool) error // see declare; nil: nothing is declared
}

func newNamed(c *Client, kind, name string, set settings) named {
	o := newClientless(kind, c.prefixed(name), set)
	o.client, o.given = c, name
	o.set.fail(c.usable())
	return o
}

// newClientless returns an object that belongs to no single client.
func newClientless(kind, name string, set settings) named {
	o := named{kind: kind, given: name, name: name, set: set}
	if err := script.CheckName(name); err != nil {
		o.set.fail(invalid("%w", err))
	}
	return o
}

// ready returns what is wrong with the object or with the context of a call, or nil.
func (o *named) ready(ctx context.Context) error {
	switch {
	case o.set.err != nil:
		return o.set.err
	case o.client == nil:
		return errZero
	}
	return checkContext(ctx)
}

// errZero is the error of every call on a zero value.
var errZero = invalid("this is a zero value: make it with its constructor")

func checkContext(ctx context.Context) error {
	if ctx == nil {
		return invalid("the context is nil: use context.Background()")
	}
	return nil
}

// fits returns an error if the settings do not fit the kind, or if the clock skew of the
// client would use up most of the lease time.
func (o *named) fits(s settings, k engine.Kind) error {
	skew := o.client.options.ClockSkew
	least := 4 * skew
	switch {
	case s.lease > 0 && s.lease < least:
		return invalid("LeaseTime is %v: ClockSkew is %v, so choose at least %v", s.lease, skew, least)
	case s.lease == 0 && s.renewal > 0 && s.renewal < least:
		return invalid("WatchdogTimeout is %v: ClockSkew is %v, so choose at least %v", s.renewal, skew, least)
	case s.atLeast > 0 && !k.Ref("").CanKeep():
		return invalid("AtLeast does not apply to a %s: remove it", o.kind)
	}
	return nil
}

// Name returns the name, without [Options].NamePrefix.
func (o *named) Name() string { return o.given }

// acquire acquires a lock, or enters it again if ctx holds it already.
func (o *named) acquire(ctx context.Context, op string, k engine.Kind, wait time.Duration, opts []LockOption) (*Lease, error) {
	if err := o.ready(ctx); err != nil {
		return nil, o.fail(op, err)
	}
	s := with(o.set, opts)
	if err := o.fits(s, k); err != nil {
		s.fail(err)
	}
	if s.err != nil {
		return nil, o.fail(op, s.err)
	}
	r := s.request(wait)
	l := &Lease{
		client: o.client, kind: o.kind, name: o.name,
		renewed: s.lease == 0, exit: s.onRelease,
		parent: ctx, outer: LeaseOf(ctx), call: waitingCall{bounded: r.Wait > 0},
	}
	seen := o.observe(ctx, o.client, k)
	r.Report, r.Caller, r.Steady, r.Declare = seen.notes(), (*lossHandler)(l), o.steady, o.creates
	var entered bool
	var err error
	if !o.repeats && l.outer != nil {
		entered, r.Under, err = o.prepare(ctx, l, r, s.nonReentrant)
	}
	if !entered && err == nil {
		waiting, done := l.abortable(ctx, o.client)
		l.hold, err = o.client.engine.Acquire(waiting, k, r, (*lossHandler)(l))
		err = done(err)
	}
	if err != nil {
		if !o.repeats {
			o.client.explainBusy(o.name, err)
		}
		err = because(ctx, o.fail(op, err))
		o.client.failed(seen, err)
		return nil, err
	}
	if !entered {
		l.pass, l.token = l.hold.Current()
	}
	seen.ended(l, entered, nil)
	l.announce(s.onAcquire)
	l.keepFor(s.atLeast)
	return l, nil
}

// prepare looks for leases that ctx carries. If ctx holds the lock, prepare makes l
// one more lease on the same hold and reports that. Otherwise it returns the hold
// that admits l, if there is one.
func (o *named) prepare(ctx context.Context, l *Lease, r engine.Request, nonReentrant bool) (entered bool, under *engine.Hold, err error) {
	entered, err = l.enter(ctx, r, nonReentrant)
	switch {
	case entered || err != nil:
	case o.beside != "":
		under, err = l.besides(ctx, o.beside, r)
	case o.never != "" && o.client.find(ctx, o.never, o.name) != nil:
		err = ErrUpgrade
	}
	return entered, under, err
}

// besides returns the hold of that kind that ctx has on the same lock and that
// admits this lease, or nil.
func (l *Lease) besides(ctx context.Context, kind string, r engine.Request) (*engine.Hold, error) {
	held := l.client.find(ctx, kind, l.name)
	switch {
	case held == nil:
		return nil, nil
	case held.why() != 0:
		return nil, held.loss()
	case held.hold.Admit(held.pass, r) != nil: // released at this moment
		return nil, nil
	}
	l.survives = kind
	return held.hold, nil
}

// enter makes l one more lease on the hold that ctx has on the lock. It reports
// whether ctx has one.
func (l *Lease) enter(ctx context.Context, r engine.Request, nonReentrant bool) (bool, error) {
	held := l.client.find(ctx, l.kind, l.name)
	if held == nil {
		return false, nil
	}
	if nonReentrant {
		return false, ErrReentrant
	}
	l.hold, l.pass, l.token = held.hold, held.pass, held.token
	err := held.hold.Reenter(ctx, l.pass, r, (*lossHandler)(l))
	switch {
	case errors.Is(err, ErrNotHeld): // released at this moment
		return false, nil
	case errors.Is(err, ErrLost):
		return false, l.loss()
	}
	return err == nil, err
}

// ask runs a request. With repeat, it is repeated while the server is unavailable.
func (o *named) ask(ctx context.Context, op string, repeat bool, question func(context.Context) error) error {
	err := o.ready(ctx)
	if err == nil {
		err = o.client.engine.Ask(ctx, repeat, question)
	}
	if err != nil {
		return because(ctx, o.fail(op, err))
	}
	return nil
}

// order makes the server carry out a request once, even if it has to be sent several
// times. With later set, the cancellation of ctx is ignored, see [engine.Engine.Once].
func (o *named) order(ctx context.Context, op string, call, later engine.Order) (driver.Reply, error) {
	var r driver.Reply
	err := o.ready(ctx)
	if err == nil {
		r, err = o.client.engine.Once(ctx, call, later)
	}
	if err != nil {
		return r, because(ctx, o.fail(op, err))
	}
	return r, nil
}

// decide sends an order whose reply is yes or no.
func (o *named) decide(ctx context.Context, op string, call engine.Order) (bool, error) {
	n, err := o.count(ctx, op, call, nil)
	return n == 1, err
}

// count sends an order whose reply is a number.
func (o *named) count(ctx context.Context, op string, call, later engine.Order) (int, error) {
	r, err := o.order(ctx, op, call, later)
	if err != nil {
		return 0, err
	}
	n, err := script.DecodeInt(r)
	if err != nil {
		return 0, o.fail(op, err)
	}
	return n, nil
}

// checkCount checks a number of permits or the like.
func checkCount(what string, n, least int) error {
	if n < least || n > math.MaxInt32 {
		return invalid("%s is %d: choose between %d and %d", what, n, least, math.MaxInt32)
	}
	return nil
}

// force frees a lock, whichever owner holds it.
func (o *named) force(ctx context.Context, k engine.Kind, force func(context.Context) (bool, error)) (bool, error) {
	var freed bool
	err := o.ask(ctx, "force unlock", false, func(ctx context.Context) error {
		return o.client.engine.Force(k, func() (err error) {
			freed, err = force(ctx)
			return err
		})
	})
	return freed, err
}

// fail returns the error of an operation on the object. A LostError stays as it is.
func (o *named) fail(op string, err error) error {
	var lost *LostError
	if errors.As(err, &lost) {
		return lost
	}
	return &Error{Op: op, Kind: o.kind, Name: o.given, Err: err}
}
