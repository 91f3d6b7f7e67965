package wait_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

func woken(w *wait.Waiter) bool {
	synctest.Wait()
	select {
	case <-w.Wake():
		return true
	default:
		return false
	}
}

// publish makes the fake server announce a release of a mutex.
func publish(t *testing.T, d driver.Driver) {
	t.Helper()
	m := script.NewMutex("a")
	if _, err := script.Acquire(context.Background(), d, m, script.Claim{Owner: "o:1", Count: 1, Lease: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Release(context.Background(), d, "o:1", 0); err != nil {
		t.Fatal(err)
	}
}

func TestHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New()
		lost, restored := 0, 0
		h := wait.NewHub(d, time.Second, wait.Callbacks{Lost: func(error) { lost++ }, Restored: func() { restored++ }})
		defer h.Close()
		a, other := h.Join("redisson_lock__channel:{a}"), h.Join("redisson_lock__channel:{b}")
		for _, w := range []*wait.Waiter{a, other} {
			if !woken(w) || !w.Live() {
				t.Error("not woken by the confirmation")
			}
		}
		b := h.Join("redisson_lock__channel:{a}")
		if woken(b) || !b.Live() {
			t.Error("woken without a reason, or not live although the channel is")
		}
		if d.Channels() != 2 {
			t.Errorf("%d subscriptions for two channels", d.Channels())
		}
		publish(t, d)
		publish(t, d)
		if !woken(a) || !woken(b) || woken(a) {
			t.Error("two messages: want one wake-up each")
		}
		if woken(other) {
			t.Error("woken by another channel")
		}
		publish(t, d)
		a.Forget()
		if woken(a) {
			t.Error("woken although forgotten")
		}
		b.Forget()

		d.Reconnect(errors.New("cut"))
		if !woken(a) || !woken(other) || lost != 1 || restored != 1 {
			t.Errorf("not woken by the new subscription, or lost %d times, restored %d times", lost, restored)
		}

		// The last one who leaves closes the door, but not at once.
		a.Leave()
		b.Leave()
		time.Sleep(900 * time.Millisecond)
		if d.Channels() != 2 || !h.Listens("redisson_lock__channel:{a}") {
			t.Errorf("%d subscriptions while they linger", d.Channels())
		}
		again := h.Join("redisson_lock__channel:{a}")
		if !again.Live() {
			t.Error("the lingering subscription was not used")
		}
		time.Sleep(time.Hour)
		again.Leave()
		other.Leave()
		time.Sleep(2 * time.Second)
		if d.Channels() != 0 || h.Listens("redisson_lock__channel:{a}") {
			t.Errorf("%d subscriptions left", d.Channels())
		}
	})
}

func TestHubClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New()
		h := wait.NewHub(d, time.Second, wait.Callbacks{Lost: func(error) {}})
		h.Join("c").Leave()
		h.Close()
		w := h.Join("c") // a straggler
		if w.Live() {
			t.Error("live after Close")
		}
		w.Leave()
	})
}

// A tap keeps what it hears, in order and up to a bound.
func TestTap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New()
		h := wait.NewHub(d, time.Second, wait.Callbacks{Lost: func(error) {}, Restored: func() {}})
		defer h.Close()
		const a = "redisson_lock__channel:{a}"
		tap := h.Tap(func(string, string) bool { return true }, a)
		deaf := h.Tap(func(string, string) bool { return false }, a)
		hears := func(tap *wait.Tap, missed bool, want ...wait.Notice) {
			t.Helper()
			if len(want) > 0 && !woken(tap.Waiter) {
				t.Error("not woken")
			}
			synctest.Wait()
			if got, lacks := tap.Take(); !slices.Equal(got, want) || lacks != missed {
				t.Errorf("heard %v, missed some: %v; want %v", got, lacks, want)
			}
		}
		confirmed, message := wait.Notice{Sort: wait.Confirmed, Channel: a}, wait.Notice{Channel: a, Payload: "0"}
		synctest.Wait()
		if got, _ := tap.Take(); !slices.Equal(got, []wait.Notice{confirmed}) || !deaf.Live() {
			t.Errorf("heard %v when it was confirmed", got)
		}
		deaf.Take() // who comes a moment later may find it confirmed already
		tap.Forget()
		deaf.Forget()
		tap.Confirm()
		hears(tap, false, confirmed)
		hears(deaf, false, confirmed)
		publish(t, d)
		publish(t, d)
		hears(tap, false, message, message)
		if woken(deaf.Waiter) {
			t.Error("woken by what does not concern it")
		}
		hears(tap, false)
		tap.Confirm()
		hears(tap, false, confirmed)
		publish(t, d)
		d.Reconnect(errors.New("cut"))
		hears(tap, false, message, wait.Notice{Sort: wait.Lost}, confirmed)
		for range 1000 {
			publish(t, d)
		}
		if got, missed := tap.Take(); len(got) != 100 || !missed {
			t.Errorf("of 1000 messages %d were kept, some missed: %v", len(got), missed)
		}
		publish(t, d)
		tap.Forget()
		publish(t, d)
		hears(tap, false, message, message)
		tap.Leave()
		publish(t, d)
		hears(tap, false)
		h.Close()
		tap.Confirm() // a straggler
	})
}

// A refused channel is reported once, and is no broken connection.
func TestHubRefused(t *testing.T) {
	d := &recorder{}
	var refused []string
	lost := 0
	h := wait.NewHub(d, time.Second, wait.Callbacks{
		Lost:    func(error) { lost++ },
		Refused: func(channel string, _ error) { refused = append(refused, channel) },
	})
	defer h.Close()
	bad, good := h.Join("bad"), h.Join("good")
	d.h.Subscribed("good", 1)
	for range 3 {
		d.h.Lost([]string{"bad"}, driver.Refused(driver.ServerError("NOPERM no permissions to access a channel")))
	}
	if !slices.Equal(refused, []string{"bad"}) || lost != 0 {
		t.Errorf("refused %v, lost %d times", refused, lost)
	}
	if bad.Live() || !good.Live() {
		t.Error("the wrong channel is live")
	}
	// A message shows one family of channels only; the other may be refused.
	d.h.Message("bad", "x")
	if bad.Live() || !woken1(bad) {
		t.Error("a message makes a refused channel live, or does not wake")
	}
	d.h.Subscribed("bad", 1)
	if !bad.Live() {
		t.Error("not live although confirmed")
	}
	d.h.Lost([]string{"bad"}, driver.Refused(driver.ServerError("NOPERM no permissions to access a channel")))
	if len(refused) != 2 {
		t.Errorf("a right that was taken away: refused %v", refused)
	}
}

func woken1(w *wait.Waiter) bool {
	select {
	case <-w.Wake():
		return true
	default:
		return false
	}
}

// A recorder is a driver that listens.
type recorder struct {
	driver.Driver
	h     driver.Handler
	gone  []int // how many channels each Unsubscribe had
	names map[string]bool
}

func (r *recorder) Listen(h driver.Handler) driver.Listener {
	r.h, r.names = h, make(map[string]bool)
	return r
}

func (r *recorder) Subscribe(channels ...string) {
	for _, c := range channels {
		r.names[c] = true
	}
}

func (r *recorder) Unsubscribe(channels ...string) {
	for _, c := range channels {
		delete(r.names, c)
	}
	r.gone = append(r.gone, len(channels))
}

func (*recorder) Close() error { return nil }

// A sweep takes the channels that were idle longest, some at a time, and leaves
// alone what is waited on.
func TestHubSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1200
		d := &recorder{}
		h := wait.NewHub(d, time.Second, wait.Callbacks{})
		defer h.Close()
		h.Join("stays")
		var waiters []*wait.Waiter
		for i := range n {
			waiters = append(waiters, h.Join(fmt.Sprint("c", i)))
		}
		for _, w := range waiters {
			w.Leave()
		}
		time.Sleep(500 * time.Millisecond)
		again := h.Join("c7")
		late := h.Join("late")
		late.Leave()
		time.Sleep(600 * time.Millisecond)
		synctest.Wait()
		if len(d.names) != 3 || !d.names["c7"] || !d.names["late"] || !d.names["stays"] {
			t.Errorf("%d channels are left, want three", len(d.names))
		}
		for _, k := range d.gone {
			if k > 500 {
				t.Errorf("%d channels in one sweep", k)
			}
		}
		again.Leave()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(d.names) != 1 || !d.names["stays"] {
			t.Errorf("%d channels are left, want one", len(d.names))
		}
		late.Leave() // twice: the channel is gone
		h.Join("late")
		time.Sleep(time.Hour)
		if !d.names["late"] {
			t.Error("a channel was unsubscribed that is waited on")
		}
	})
}

// What a waiter costs does not depend on how many channels there are.
func BenchmarkHub(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := wait.NewHub(&recorder{}, time.Millisecond, wait.Callbacks{})
			defer h.Close()
			for i := range n {
				h.Join(fmt.Sprint("c", i))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h.Join(fmt.Sprint("d", i%1000)).Leave()
			}
		})
	}
}
