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

// A gate that remembers something of its last use is not kept.
func TestGateAsNew(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		for name, use := range map[string]func(*gate){
			"the turn":       func(g *gate) { g.turns = 1 },
			"rivals":         func(g *gate) { g.rivals = 1 },
			"an outage":      func(g *gate) { g.fail(outage{}) },
			"a verification": func(g *gate) { g.verified = 1 },
		} {
			g := e.gate(name)
			use(g)
			e.leaveGate(g)
			if e.gates.byKey[name] != nil {
				t.Errorf("a gate with %s was kept", name)
			}
		}
	})
}
