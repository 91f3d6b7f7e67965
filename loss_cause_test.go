package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The error of a lease that could not be renewed has the error of the last
// renewal as its cause, and is not taken for the end of a context. One whose time
// is over has none.
func TestLossHasCause(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for what, sever := range map[string]func(*redistest.Proxy){
		"refused": func(p *redistest.Proxy) { p.Refuse(true); p.Cut() },
		"silent":  func(p *redistest.Proxy) { p.Freeze() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := redistest.NewProxy(t, s.Addr())
			c := open(t, p.URL(), holdfast.Options{WatchdogTimeout: 3 * time.Second, RenewEvery: time.Second})
			l := lock(t, t.Context(), holdfast.Multi(c.Mutex(name(t)), c.Mutex(name(t)+"b")))
			sever(p)
			<-l.Context().Done()
			err := context.Cause(l.Context())
			var lost *holdfast.LostError
			if !errors.As(err, &lost) || lost.Reason != holdfast.LossExpired || lost.Cause == nil || !errors.Is(err, lost.Cause) {
				t.Fatalf("%#v", err)
			}
			if !errors.Is(err, holdfast.ErrLost) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrClosed) {
				t.Errorf("matches what it is not: %v", lost.Cause)
			}
			p.Thaw()
		})
	}
	c := open(t, s.URL())
	l := lock(t, t.Context(), c.Mutex(name(t)), holdfast.LeaseTime(100*time.Millisecond))
	<-l.Context().Done()
	var lost *holdfast.LostError
	if err := context.Cause(l.Context()); !errors.As(err, &lost) || lost.Reason != holdfast.LossExpired || lost.Cause != nil {
		t.Errorf("%#v", err)
	}
}
