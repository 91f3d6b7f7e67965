package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A call that queues behind another call waits for an unavailable server for the patience
// of the options, counted from its own start.
func TestOutageOfPreviousTurn(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		d.Fail(func(driver.Call) error { return driver.Unsent(errors.New("no network")) })
		lock := func() time.Duration {
			start := time.Now()
			_, err := a.Acquire(context.Background(), script.NewMutex("k"), forever, new(user))
			if !errors.Is(err, ErrUnavailable) {
				t.Errorf("error %v", err)
			}
			return time.Since(start)
		}
		first := make(chan time.Duration)
		go func() { first <- lock() }()
		time.Sleep(options.Patience - time.Second)
		if took := lock(); took < options.Patience || took > options.Patience+2*time.Second {
			t.Errorf("gave up after %v", took)
		}
		if took := <-first; took < options.Patience || took > options.Patience+2*time.Second {
			t.Errorf("the first gave up after %v", took)
		}
	})
}

// Gates are kept for the next call, but not without limit.
func TestGatesForgotten(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		used := e.gate("used")
		for i := range 10 * minGates {
			e.leaveGate(e.gate(fmt.Sprint(i)))
		}
		if n := len(e.gates.byKey); n > minGates {
			t.Errorf("%d gates are kept", n)
		}
		if e.gates.byKey["used"] != used {
			t.Error("a gate was forgotten while it was used")
		}
		kept := e.gate("kept")
		e.leaveGate(kept)
		if e.gate("kept") != kept {
			t.Error("a gate was not kept for the next call")
		}
	})
}

// A gate that is not used has no subscription. It keeps what it knows of rivals.
func TestGateUnused(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		g := e.gate("k")
		g.sub.waiter = e.hub.Join("c")
		g.rivals.note(2)
		e.gate("k") // a second use
		e.leaveGate(g)
		if g.sub.waiter == nil {
			t.Error("the subscription ended while the gate was used")
		}
		e.leaveGate(g)
		if g.sub.waiter != nil {
			t.Error("the subscription has not ended")
		}
		if next := e.gate("k"); !next.takeYield() || next.rivals.n != 2 {
			t.Errorf("the next use knows of %+v", next.rivals)
		}
		if g.takeYield() {
			t.Error("yields twice")
		}
		g.rivals.note(2)
		time.Sleep(yieldTime)
		if g.takeYield() {
			t.Error("yields when the rivals have had their time")
		}
	})
}
