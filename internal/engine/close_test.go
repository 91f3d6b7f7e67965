package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// holdMany acquires n locks.
func holdMany(t *testing.T, e *Engine, n int) {
	t.Helper()
	for i := range n {
		if _, err := e.Acquire(context.Background(), script.NewMutex(fmt.Sprint("k", i)), forever, new(user)); err != nil {
			t.Fatal(err)
		}
	}
}

// refusing returns a fake driver on which the releases of some keys fail.
func refusing(d *fake.Driver, refuse func(key string) error) *wrapped {
	w := wrap(d)
	w.many = func(ctx context.Context, calls []driver.Call) []driver.Result {
		results := make([]driver.Result, len(calls))
		for i, c := range calls {
			if err := refuse(c.Keys[0]); err != nil && fake.Release(c) {
				results[i].Err = err
				continue
			}
			results[i] = d.DoMany(ctx, calls[i:i+1])[0]
		}
		return results
	}
	return w
}

// Close retries the releases that fail, at any position in a pipeline, and repeats no
// other.
func TestCloseFreesEach(t *testing.T) {
	in(t, func(d *fake.Driver, _, _ *Engine) {
		tries := make(map[string]int)
		e := New(refusing(d, func(key string) error {
			if tries[key]++; tries[key] < 3 && (key == "k0" || key == "k7") {
				return driver.ServerError("TRYAGAIN Multiple keys request during rehashing of slot")
			}
			return nil
		}), options)
		holdMany(t, e, 1200)
		e.Close(time.Second)
		for i := range 1200 {
			if owner := d.Holder(fmt.Sprint("k", i)); owner != "" {
				t.Errorf("k%d is still held by %s", i, owner)
			}
		}
		if tries["k1"] != 1 || tries["k0"] != 3 {
			t.Errorf("%d releases of k1, want 1; %d of k0, which was refused twice, want 3", tries["k1"], tries["k0"])
		}
	})
}

// Close logs the locks that it could not free.
func TestCloseSaysWhatIsLeft(t *testing.T) {
	for _, text := range []string{"NOPERM No permissions to access a key", "TRYAGAIN Multiple keys request"} {
		in(t, func(d *fake.Driver, _, _ *Engine) {
			var out strings.Builder
			o := options
			o.Log = slog.New(slog.NewTextHandler(&out, nil))
			e := New(refusing(d, func(key string) error {
				if key == "k1" {
					return driver.ServerError(text)
				}
				return nil
			}), o)
			holdMany(t, e, 700)
			start := time.Now()
			e.Close(time.Second)
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("closing took %v", took)
			}
			for i := range 700 {
				if owner := d.Holder(fmt.Sprint("k", i)); (owner != "") != (i == 1) {
					t.Errorf("k%d is held by %q", i, owner)
				}
			}
			if s := out.String(); !strings.Contains(s, "locks=1 keys=[k1]") || !strings.Contains(s, text) {
				t.Errorf("logged: %s", s)
			}
		})
	}
}

// A lease that was granted during a ForceUnlock of the same client is verified, because the
// force may have come after the grant.
func TestForceBesideFixedGrant(t *testing.T) {
	for _, r := range []Request{forever, {Lease: time.Hour, Wait: Forever}} {
		in(t, func(d *fake.Driver, _, _ *Engine) {
			w := wrap(d)
			e := New(w, options)
			defer e.Close(time.Second)
			first := true
			w.do = func(ctx context.Context, c driver.Call) (driver.Reply, error) {
				reply, err := d.Do(ctx, c)
				if fake.Acquire(c) && first {
					first = false
					if err := e.Force(script.NewMutex("k"), func() error { d.Delete("k"); return nil }); err != nil {
						t.Error(err)
					}
				}
				return reply, err
			}
			_, u := taken(t, e, r)
			time.Sleep(time.Second)
			if why := u.told(); len(why) != 1 || why[0] != watchdog.NotOwner {
				t.Errorf("told %v", why)
			}
		})
	}
}

// A key counts as forced from the time of the force.
func TestForceTimes(t *testing.T) {
	var f forceTimes
	if f.since("a", 1) {
		t.Error("the zero value reports a force")
	}
	f.note("a")
	at := time.Duration(f.at("a").Load())
	if !f.since("a", at) || f.since("a", at+1) {
		t.Error("the time is not that of the force")
	}
}

// A grant that arrives after Close is not returned, and the lock is freed.
func TestGrantedAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New()
		stalled, answer := wrap(d), make(chan struct{})
		stalled.do = func(ctx context.Context, c driver.Call) (driver.Reply, error) {
			<-answer
			return d.Do(ctx, c)
		}
		e := New(stalled, options)
		got := make(chan error)
		go func() {
			_, err := e.Acquire(context.Background(), script.NewMutex("k"), forever, new(user))
			got <- err
		}()
		synctest.Wait()
		e.Close(time.Second)
		close(answer)
		if err := <-got; !errors.Is(err, ErrClosed) {
			t.Errorf("acquired after Close: %v", err)
		}
		if d.Holder("k") != "" {
			t.Error("left locked")
		}
	})
}

// Close frees the other locks while one call does not get an answer.
func TestCloseFreesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New()
		stalled := wrap(d)
		stalled.do = func(ctx context.Context, c driver.Call) (driver.Reply, error) {
			if c.Keys[0] == "slow" {
				time.Sleep(time.Minute)
			}
			return d.Do(ctx, c)
		}
		e := New(stalled, options)
		taken(t, e, forever)
		go func() { _, _ = e.Acquire(context.Background(), script.NewMutex("slow"), forever, new(user)) }()
		synctest.Wait()
		e.Close(time.Second)
		if d.Holder("k") != "" {
			t.Error("not freed, although the server answers")
		}
		time.Sleep(2 * time.Minute)
	})
}
