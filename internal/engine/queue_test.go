package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// crowd runs a test in fake time on some engines that share a fake server and hear its
// messages.
func crowd(t *testing.T, n int, test func(d *fake.Driver, es []*Engine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := fake.New()
		var es []*Engine
		for range n {
			es = append(es, New(d, options))
		}
		test(d, es)
		for _, e := range es {
			e.Close(time.Second)
		}
		if d.Waiting() != 0 {
			t.Errorf("%d owners are left in the queue", d.Waiting())
		}
	})
}

// waiting starts a call that waits for the mutex "k". It returns when the call is in the
// queue at the server.
func waiting(t *testing.T, d *fake.Driver, e *Engine, r Request) <-chan *Hold {
	t.Helper()
	before := d.Waiting()
	got := make(chan *Hold, 1)
	go func() { got <- acquire(t, e, r) }()
	synctest.Wait()
	if d.Waiting() != before+1 {
		t.Fatalf("%d owners are in the queue, want %d", d.Waiting(), before+1)
	}
	return got
}

// A release grants the lock to the first client in the queue. No client asks for it.
func TestQueueGrant(t *testing.T) {
	crowd(t, 4, func(d *fake.Driver, es []*Engine) {
		h := acquire(t, es[0], forever)
		var next []<-chan *Hold
		for _, e := range es[1:] {
			next = append(next, waiting(t, d, e, forever))
		}
		time.Sleep(100 * time.Millisecond) // the confirmation of a subscription may make a client ask once more
		asked, released := d.Acquires(), d.Releases()
		for i, got := range next {
			time.Sleep(10 * time.Millisecond)
			token := h.handoff.token
			release(t, h)
			h = <-got
			if h.owner != d.Holder("k") || !h.Valid() || h.handoff.token <= token {
				t.Errorf("grant %d: holder %q, hold %q, valid %v, token %d after %d", i, d.Holder("k"), h.owner, h.Valid(), h.handoff.token, token)
			}
		}
		if n := d.Acquires() - asked; n != 0 {
			t.Errorf("asked %d times", n)
		}
		release(t, h)
		if d.Holder("k") != "" {
			t.Errorf("held by %q", d.Holder("k"))
		}
		time.Sleep(time.Second)
		if n := d.Releases() - released; n != 4 {
			t.Errorf("four owners were released by %d requests", n)
		}
	})
}

// A granted lock is renewed soon, because the server keeps it for three seconds only.
func TestQueueGrantIsRenewed(t *testing.T) {
	crowd(t, 2, func(d *fake.Driver, es []*Engine) {
		h := acquire(t, es[0], forever)
		got := waiting(t, d, es[1], forever)
		release(t, h)
		h = <-got
		if left := h.Deadline() - clock.Now(); left > 3*time.Second {
			t.Errorf("the lease lasts for %v before its renewal", left)
		}
		time.Sleep(100 * time.Millisecond)
		if left := h.Deadline() - clock.Now(); left < 25*time.Second || d.Remaining("k") < left {
			t.Errorf("the lease lasts for %v, at the server for %v", left, d.Remaining("k"))
		}
		time.Sleep(time.Minute)
		if !h.Valid() {
			t.Error("the lease was not renewed")
		}
		release(t, h)
	})
}

// The client asks before it uses a grant of which it does not know how old it is, whose
// lease is of fixed length, or which replicas must have.
func TestQueueGrantIsConfirmed(t *testing.T) {
	tests := map[string]struct {
		waits    time.Duration
		r        Request
		replicas int
		asks     int
	}{
		"fresh":             {500 * time.Millisecond, forever, 0, 0},
		"after a long wait": {3 * time.Second, forever, 0, 1},
		"a fixed lease":     {0, Request{Wait: Forever, Lease: 5 * time.Second}, 0, 1},
		"a short lease":     {0, Request{Wait: Forever, Lease: time.Second}, 0, 1},
		"with replicas":     {0, forever, 1, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			crowd(t, 2, func(d *fake.Driver, es []*Engine) {
				d.Replicas(test.replicas)
				h := acquire(t, es[0], forever)
				got := waiting(t, d, es[1], test.r)
				time.Sleep(100*time.Millisecond + test.waits)
				asked := d.Acquires()
				release(t, h)
				h = <-got
				if n := d.Acquires() - asked; n != test.asks {
					t.Errorf("asked %d times, want %d", n, test.asks)
				}
				if lease := test.r.Lease; lease > 0 && (h.Deadline()-clock.Now() > lease || d.Remaining("k") > max(lease, 3*time.Second)) {
					t.Errorf("the lease lasts for %v, at the server for %v", h.Deadline()-clock.Now(), d.Remaining("k"))
				}
				release(t, h)
			})
		})
	}
}

// late delays the messages of a fake server.
type late struct {
	*fake.Driver
	by time.Duration
}

func (l late) Listen(h driver.Handler) driver.Listener { return l.Driver.Listen(lateHandler{h, l.by}) }

type lateHandler struct {
	driver.Handler
	by time.Duration
}

func (l lateHandler) Message(channel, payload string) {
	time.AfterFunc(l.by, func() { l.Handler.Message(channel, payload) })
}

// However late the message of a grant is, the holder never relies on it for longer than
// the server keeps the lock.
func TestQueueGrantIsLate(t *testing.T) {
	for _, by := range []time.Duration{100 * time.Millisecond, 900 * time.Millisecond, 1900 * time.Millisecond, 2900 * time.Millisecond, 3100 * time.Millisecond, 5 * time.Second} {
		t.Run(by.String(), func(t *testing.T) {
			crowd(t, 1, func(d *fake.Driver, es []*Engine) {
				slow := New(late{d, by}, options)
				defer slow.Close(time.Second)
				h := acquire(t, es[0], forever)
				got := waiting(t, d, slow, forever)
				release(t, h)
				h = <-got
				if h.owner != d.Holder("k") || h.Deadline()-clock.Now() > d.Remaining("k") {
					t.Errorf("the holder relies on it for %v, the server keeps it for %v", h.Deadline()-clock.Now(), d.Remaining("k"))
				}
				release(t, h)
			})
		})
	}
}

// If the message of a grant is lost, or the client that got it has died, another client
// gets the lock after some seconds.
func TestQueueGrantIsLost(t *testing.T) {
	for _, n := range []int{2, 3, 20} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			crowd(t, n, func(d *fake.Driver, es []*Engine) {
				h := acquire(t, es[0], forever)
				got := make(chan *Hold, n)
				for _, e := range es[1:] {
					one := waiting(t, d, e, forever)
					go func() { got <- <-one }()
				}
				d.Deafen(true)
				release(t, h)
				d.Deafen(false)
				start := time.Now()
				for range n - 1 {
					h := <-got
					if took := time.Since(start); took > 2*firstLook {
						t.Errorf("got it after %v", took)
					}
					release(t, h)
				}
			})
		})
	}
}

// A call that ends leaves the queue. If it was granted the lock at the same time, the next
// client gets it.
func TestQueueGrantTooLate(t *testing.T) {
	for _, lead := range []time.Duration{-time.Millisecond, 0, time.Millisecond} {
		t.Run(lead.String(), func(t *testing.T) {
			crowd(t, 3, func(d *fake.Driver, es []*Engine) {
				h := acquire(t, es[0], forever)
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				defer cancel()
				var wg sync.WaitGroup
				wg.Go(func() {
					got, err := es[1].Acquire(ctx, script.NewMutex("k"), forever, new(user))
					switch {
					case err == nil:
						release(t, got)
					case !errors.Is(err, context.DeadlineExceeded):
						t.Error(err)
					}
				})
				synctest.Wait()
				next := waiting(t, d, es[2], forever)
				time.Sleep(100*time.Millisecond + lead)
				release(t, h)
				start := time.Now()
				h = <-next
				if took := time.Since(start); took > 100*time.Millisecond {
					t.Errorf("the next client got it after %v", took)
				}
				release(t, h)
				wg.Wait()
			})
		})
	}
}

// The grant of an earlier owner of the same client is not for the present one.
func TestQueueGrantOfAnother(t *testing.T) {
	crowd(t, 2, func(d *fake.Driver, es []*Engine) {
		h := acquire(t, es[0], forever)
		got := waiting(t, d, es[1], forever)
		q := script.NewMutex("k").Queued()
		// The queue has an owner of the same client whose request was late.
		stale := es[1].ID() + ":999"
		if _, err := d.Do(context.Background(), q.Claim(script.Claim{Owner: stale, Count: 1, Lease: time.Minute, Queue: true})); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Do(context.Background(), q.Free(d.Queue()[0])); err != nil { // and not the present one
			t.Fatal(err)
		}
		release(t, h)
		if d.Holder("k") != stale {
			t.Fatalf("held by %q", d.Holder("k"))
		}
		start := time.Now()
		h = <-got
		if took := time.Since(start); h.owner == stale || took < time.Second {
			t.Errorf("%s got the lock of %s after %v", h.owner, stale, took)
		}
		release(t, h)
	})
}

// Without the right to use the queue, and while a slot is being moved, a release wakes all
// clients.
func TestQueueGrantRefused(t *testing.T) {
	for _, text := range []string{"NOPERM No permissions to access a key", "TRYAGAIN Multiple keys request during rehashing of slot"} {
		t.Run(text[:6], func(t *testing.T) {
			crowd(t, 3, func(d *fake.Driver, es []*Engine) {
				d.Fail(func(c driver.Call) error {
					if len(c.Keys) > 1 && c.Script.Name != "renew" {
						return driver.ServerError(text)
					}
					return nil
				})
				h, u := taken(t, es[0], forever)
				var wg sync.WaitGroup
				for _, e := range es[1:] {
					wg.Go(func() {
						for range 5 {
							release(t, acquire(t, e, forever))
						}
					})
				}
				synctest.Wait()
				asked := d.Acquires()
				if asked > 20 {
					t.Errorf("asked %d times while the lock was held", asked)
				}
				time.Sleep(time.Second)
				start := time.Now()
				if err := h.Release(u, true); err != nil {
					t.Error(err)
				}
				wg.Wait()
				if took := time.Since(start); took > time.Second {
					t.Errorf("ten locks took %v", took)
				}
				d.Fail(nil)
			})
		})
	}
}

// A failover between the request and the grant makes the holder verify the grant.
func TestQueueGrantAfterFailover(t *testing.T) {
	crowd(t, 2, func(d *fake.Driver, es []*Engine) {
		h := acquire(t, es[0], forever)
		u := new(user)
		got := make(chan *Hold)
		go func() {
			h, err := es[1].Acquire(context.Background(), script.NewMutex("k"), forever, u)
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		synctest.Wait()
		release(t, h)
		d.FailOver("k") // the new master does not have the grant
		<-got
		time.Sleep(100 * time.Millisecond)
		if why := u.told(); len(why) != 1 || why[0] != watchdog.Failover {
			t.Errorf("told %v", why)
		}
	})
}

// The token of a grant is above those of all leases that its client has had, also if the
// clock of the server is set back while the call waits.
func TestQueueGrantAfterClockStep(t *testing.T) {
	crowd(t, 2, func(d *fake.Driver, es []*Engine) {
		acquire(t, es[0], forever)
		got := waiting(t, d, es[1], forever)
		time.Sleep(100 * time.Millisecond)
		d.Delete("k")
		h := acquire(t, es[1], Request{}) // it does not wait
		token := h.handoff.token
		d.Step(-10 * time.Second)
		release(t, h)
		if h = <-got; h.handoff.token <= token {
			t.Errorf("token %d after %d", h.handoff.token, token)
		}
		release(t, h)
	})
}

// The numbers of owners rise, and end with 13 random digits.
func TestOwnersAreSecret(t *testing.T) {
	crowd(t, 1, func(_ *fake.Driver, es []*Engine) {
		seen := make(map[string]bool)
		for i := range 1000 {
			number, ok := strings.CutPrefix(es[0].owners.next(), fmt.Sprint(es[0].ID(), ":", 1+i))
			if !ok || len(number) != 13 || strings.Trim(number, "0123456789") != "" || seen[number] {
				t.Fatalf("owner %d ends with %q", 1+i, number)
			}
			seen[number] = true
		}
	})
}

// After the server has refused the queue, a client uses it again when it may.
func TestQueueIsTriedAgain(t *testing.T) {
	crowd(t, 2, func(d *fake.Driver, es []*Engine) {
		d.Fail(func(c driver.Call) error {
			if len(c.Keys) > 1 && c.Script.Name != "renew" {
				return driver.ServerError("NOPERM No permissions to access a key")
			}
			return nil
		})
		h := acquire(t, es[0], forever)
		got := make(chan *Hold, 1)
		go func() { got <- acquire(t, es[1], forever) }()
		time.Sleep(time.Second)
		if d.Waiting() != 0 {
			t.Fatal("it is in the queue")
		}
		d.Fail(nil)
		release(t, h)
		h = <-got
		time.Sleep(refusalTime)
		release(t, h)
		h = acquire(t, es[0], forever)
		next := waiting(t, d, es[1], forever) // which was refused
		release(t, h)
		release(t, <-next)
	})
}

// A kind that embeds a mutex has no queue, since the claims of that queue are those of the mutex.
func TestEmbeddedKind(t *testing.T) {
	crowd(t, 2, func(d *fake.Driver, es []*Engine) {
		k := &embedding{Mutex: script.NewMutex("k")}
		first := acquire(t, es[0], forever)
		got := make(chan error, 1)
		go func() {
			h, err := es[1].Acquire(context.Background(), k, forever, new(user))
			if err == nil {
				err = h.Release(nil, true)
			}
			got <- err
		}()
		time.Sleep(100 * time.Millisecond)
		release(t, first)
		if err := <-got; err != nil {
			t.Error(err)
		}
		if k.claims == 0 || k.claims != k.replies {
			t.Errorf("the kind made %d claims and decoded %d replies", k.claims, k.replies)
		}
	})
}

// embedding is a kind that embeds another one and claims in its own way.
type embedding struct {
	*script.Mutex
	claims, replies int
}

func (k *embedding) Claim(c script.Claim) driver.Call {
	k.claims++
	return k.Mutex.Claim(c)
}

func (k *embedding) Decode(c script.Claim, r driver.Reply) (script.Verdict, error) {
	k.replies++
	return k.Mutex.Decode(c, r)
}
