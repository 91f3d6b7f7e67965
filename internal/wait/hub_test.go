package wait_test

import (
	"context"
	"errors"
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
	if _, err := m.Acquire(context.Background(), d, script.Claim{Owner: "o:1", Count: 1, Lease: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Release(context.Background(), d, "o:1", 0); err != nil {
		t.Fatal(err)
	}
}

func TestHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New()
		lost := 0
		h := wait.NewHub(d, time.Second, func(error) { lost++ })
		defer h.Close()
		a, other := h.Join(nil, "redisson_lock__channel:{a}"), h.Join(nil, "redisson_lock__channel:{b}")
		for _, w := range []*wait.Waiter{a, other} {
			if !woken(w) || !w.Live() {
				t.Error("not woken by the confirmation")
			}
		}
		b := h.Join(nil, "redisson_lock__channel:{a}")
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
		if !woken(a) || !woken(other) || lost != 1 {
			t.Errorf("not woken by the new subscription, or lost %d times", lost)
		}

		// The last one who leaves closes the door, but not at once.
		a.Leave()
		b.Leave()
		time.Sleep(900 * time.Millisecond)
		if d.Channels() != 2 || !h.Listens("redisson_lock__channel:{a}") {
			t.Errorf("%d subscriptions while they linger", d.Channels())
		}
		again := h.Join(nil, "redisson_lock__channel:{a}")
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
		h := wait.NewHub(d, time.Second, func(error) {})
		h.Join(nil, "c").Leave()
		h.Close()
		w := h.Join(nil, "c") // a straggler
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
		h := wait.NewHub(d, time.Second, func(error) {})
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
