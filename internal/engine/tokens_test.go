package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

// skewed is a driver of several servers. The clock of the node "ahead" is ahead of the
// others.
type skewed struct {
	*fake.Driver
	ahead *time.Duration
}

func (d skewed) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	r, err := d.Driver.Do(ctx, c)
	if fake.Acquire(c) && r.Int > 0 && strings.HasPrefix(c.Keys[0], "ahead/") {
		r.Int += d.ahead.Microseconds()
	}
	return r, err
}

// lockOnce acquires and releases a mutex, and returns the token.
func lockOnce(t *testing.T, e *Engine, key string) int64 {
	t.Helper()
	h, err := e.Acquire(context.Background(), script.NewMutex(key), forever, new(user))
	if err != nil {
		t.Fatal(err)
	}
	_, token := h.Current()
	release(t, h)
	time.Sleep(time.Millisecond)
	return token
}

// The clock of one master does not raise the tokens of names on another master. Otherwise
// the next client would get a lower token there.
func TestTokensOfSkewedMasters(t *testing.T) {
	in(t, func(d *fake.Driver, _, _ *Engine) {
		ahead := 50 * time.Millisecond
		x, y := New(skewed{d, &ahead}, options), New(skewed{d, &ahead}, options)
		defer x.Close(time.Second)
		defer y.Close(time.Second)
		lockOnce(t, x, "ahead/a")
		first := lockOnce(t, x, "other/b")
		if second := lockOnce(t, y, "other/b"); second <= first {
			t.Errorf("token %d after %d", second, first)
		}
	})
}

// If the clock of a server is set back, the tokens of a client still rise for each name.
func TestTokensAfterClockSetBack(t *testing.T) {
	in(t, func(d *fake.Driver, _, _ *Engine) {
		ahead := time.Minute
		x := New(skewed{d, &ahead}, options)
		defer x.Close(time.Second)
		last := lockOnce(t, x, "ahead/a")
		ahead = 0
		for range 3 {
			token := lockOnce(t, x, "ahead/a")
			if token <= last {
				t.Fatalf("token %d after %d", token, last)
			}
			last = token
		}
	})
}

// The memory for floors is bounded, and names in use keep their floors.
func TestFloorsAreBounded(t *testing.T) {
	var ts tokens
	for i := range 10 * maxFloors {
		ts.fence("hot", int64(i), 0)
		ts.fence(fmt.Sprint(i), 1, 0)
	}
	if n := len(ts.recent) + len(ts.older); n > 2*maxFloors {
		t.Errorf("%d floors are kept", n)
	}
	if f := ts.floor("hot"); f != 10*maxFloors-1 {
		t.Errorf("floor of the name in use: %d", f)
	}
}

// A grant with a token that is not a server time is refused. It raises no floor, and the
// lock is freed.
func TestIncredibleGrant(t *testing.T) {
	for _, token := range []int64{1, 1 << 49, 1 << 53, 9e18} {
		in(t, func(d *fake.Driver, _, _ *Engine) {
			x := New(forged{d, token}, options)
			defer x.Close(time.Second)
			h, err := x.Acquire(context.Background(), script.NewMutex("forged/a"), forever, new(user))
			if h != nil || !errors.Is(err, ErrRefused) {
				t.Errorf("token %d: %v, %v", token, h, err)
			}
			if f := x.tokens.floor("forged/a"); f != 0 {
				t.Errorf("token %d: floor %d", token, f)
			}
			time.Sleep(options.Patience)
			if d.Holder("forged/a") != "" {
				t.Errorf("token %d: the lock was not freed", token)
			}
		})
	}
}

// forged replaces the token of every grant.
type forged struct {
	*fake.Driver
	token int64
}

func (d forged) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	r, err := d.Driver.Do(ctx, c)
	if fake.Acquire(c) {
		r.Int = d.token
	}
	return r, err
}

// Two calls of one client that overlap get different tokens after the clock was set back.
func TestTokensOfOverlappingCalls(t *testing.T) {
	var ts tokens
	ts.fence("x", 10, 0)
	if first, second := ts.fence("x", 5, 10), ts.fence("x", 6, 10); first != 11 || second != 12 {
		t.Errorf("tokens %d and %d, want 11 and 12", first, second)
	}
	if late := ts.fence("x", 20, 10); late != 20 {
		t.Errorf("token %d, want that of the server", late)
	}
}
