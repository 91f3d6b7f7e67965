package observe_test

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/observe"
)

// warnings returns the reasons and names of all warnings since the last call.
func (r *record) warnings() (list []string) {
	for _, e := range r.take() {
		if e.Type == observe.Warned {
			list = append(list, e.Reason+" "+e.Name)
		}
	}
	return list
}

// A lease that the program drops without a release is reported, once. Its lock stays held. A
// lease that is used, or whose context is, is not reported.
func TestWarnLeaked(t *testing.T) {
	in(t, func(t *testing.T, d *fake.Driver, c *holdfast.Client, r *record) {
		lock := func(name string) *holdfast.Lease {
			l, err := c.Mutex(name).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		lock("leaked")
		done := lock("context").Context().Done()
		used := lock("used")
		multi, err := holdfast.MultiLocker(c.Mutex("multi")).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := 0; i < 100 && (len(got) == 0 || i < 5); i++ { // the collector may need a few rounds
			time.Sleep(10 * time.Second)
			runtime.GC()
			got = append(got, r.warnings()...)
		}
		if len(got) != 1 || got[0] != "leaked leaked" {
			t.Errorf("warned of %q", got)
		}
		if d.Holder("leaked") == "" || d.Holder("context") == "" || !used.Valid() || !multi.Valid() {
			t.Error("a lock is not held any more")
		}
		// A loss still reaches the context, the lease that is used, and the observers.
		ctx := used.Context()
		d.FailOver("leaked", "context", "used", "multi")
		time.Sleep(time.Second)
		select {
		case <-done:
		default:
			t.Error("the context of a lost lease is not done")
		}
		if ctx.Err() == nil {
			t.Error("the context of a lost lease is not done")
		}
		lost := make(map[string]int)
		for _, e := range r.take() {
			if e.Type == observe.Lost {
				lost[e.Name]++
			}
		}
		if len(lost) != 4 || lost["leaked"] != 1 {
			t.Errorf("lost %v", lost)
		}
		if err := used.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Error(err)
		}
		runtime.KeepAlive(multi)
	})
}

// A lock that is held for long is reported once, but not the lead of an election.
func TestWarnLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(record)
		c, err := holdfast.New(fake.New(), &holdfast.Options{LongHold: time.Minute, Observers: []observe.Observer{r}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		l, err := c.Mutex("a").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(55 * time.Second)
		if got := r.warnings(); len(got) != 0 {
			t.Errorf("warned of %q", got)
		}
		time.Sleep(10 * time.Minute)
		if got := r.warnings(); len(got) != 1 || got[0] != "long hold a" {
			t.Errorf("warned of %q", got)
		}
		_ = l.Release(t.Context())
	})
}

// A renewal that a slow server delays is reported, once.
func TestWarnLate(t *testing.T) {
	in(t, func(t *testing.T, d *fake.Driver, c *holdfast.Client, r *record) {
		l, err := c.Mutex("a").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		d.Fail(func(driver.Call) error { return driver.Unsent(errors.New("no network")) })
		time.Sleep(12 * time.Second)
		if got := r.warnings(); len(got) != 0 { // a renewal that failed is not late
			t.Errorf("warned of %q", got)
		}
		d.Fail(nil)
		time.Sleep(2 * time.Second)
		if got := r.warnings(); !slices.Equal(got, []string{"late renewal a"}) {
			t.Errorf("warned of %q", got)
		}
		time.Sleep(time.Minute)
		if got := r.warnings(); len(got) != 0 {
			t.Errorf("warned of %q", got)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A call that waits for a lease of its own client is reported, once per lock.
func TestWarnOwnClient(t *testing.T) {
	in(t, func(t *testing.T, _ *fake.Driver, c *holdfast.Client, r *record) {
		l, err := c.Mutex("a").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range [][]string{{"own client a"}, nil} {
			if _, err := c.Mutex("a").Lock(t.Context(), holdfast.Wait(5*time.Second)); !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Error(err)
			}
			if got := r.warnings(); !slices.Equal(got, want) {
				t.Errorf("warned of %q", got)
			}
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A renewal is late when half of the time to renew its lease has passed, whatever the timeout
// of the lease is, and not before.
func TestWarnLateOfEachTimeout(t *testing.T) {
	const client = 30 * time.Second
	for _, test := range []struct{ every, skew, timeout time.Duration }{
		{timeout: client},
		{timeout: client, every: client / 2},
		{timeout: client, every: client / 2, skew: client / 4},
		{timeout: 5 * time.Second},
		{timeout: 5 * time.Second, every: time.Second},
		{timeout: time.Second},
		{timeout: 5 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, r := fake.New(), new(record)
			c, err := holdfast.New(d, &holdfast.Options{
				WatchdogTimeout: client, RenewEvery: test.every, ClockSkew: test.skew,
				Observers: []observe.Observer{r}, Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			l, err := c.Mutex("a").Lock(t.Context(), holdfast.WatchdogTimeout(test.timeout))
			if err != nil {
				t.Fatal(err)
			}
			overdue := func() float64 { time.Sleep(test.timeout / 200); return c.Stats().RenewalOverdue }
			for range 400 {
				if n := overdue(); n > 0.05 {
					t.Fatalf("%+v: a renewal is overdue by %v", test, n)
				}
			}
			for _, share := range []float64{0.3, 0.6} {
				r.take()
				d.Fail(func(driver.Call) error { return driver.Unsent(errors.New("no network")) })
				for overdue() < share {
					if !l.Valid() {
						t.Fatalf("%+v: the lease is lost", test)
					}
				}
				d.Fail(nil)
				for overdue() > 0 {
				}
				if got := r.warnings(); share > 0.5 != (len(got) == 1) || !l.Valid() {
					t.Errorf("%+v: overdue by %v, warned of %q", test, share, got)
				}
			}
			_ = l.Release(t.Context())
		})
	}
}

// A logger that blocks is reported to observers, and an observer or a hook that blocks to the
// logger.
func TestWarnBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var out strings.Builder
		open := make(chan struct{})
		stuck := observe.Func(func(observe.Event) { <-open })
		log := slog.New(slog.NewTextHandler(writer(func(p []byte) {
			mu.Lock()
			defer mu.Unlock()
			out.Write(p)
		}), nil))
		c, err := holdfast.New(fake.New(), &holdfast.Options{Observers: []observe.Observer{stuck}, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		pair := func(c *holdfast.Client, opts ...holdfast.LockOption) {
			l, err := c.Mutex("a").Lock(t.Context(), opts...)
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Release(t.Context())
		}
		for range 8 {
			pair(c)
			time.Sleep(2 * time.Second)
		}
		said := func(text string) bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.Count(out.String(), text) == 1
		}
		if !said("an observer has not returned") {
			t.Errorf("logged %s", out.String())
		}
		pair(c, holdfast.OnAcquire(func(*holdfast.Lease) { time.Sleep(20 * time.Second) }))
		if !said("a hook has not returned") {
			t.Errorf("logged %s", out.String())
		}
		close(open)
		_ = c.Close()

		r, until := new(record), make(chan struct{})
		c, err = holdfast.New(fake.New(), &holdfast.Options{Observers: []observe.Observer{r}, Logger: slog.New(slog.NewTextHandler(writer(func([]byte) { <-until }), nil))})
		if err != nil {
			t.Fatal(err)
		}
		var leases []*holdfast.Lease
		for i := range 10 {
			m := c.Mutex(fmt.Sprint("a", i))
			l, err := m.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
			_, _ = m.Lock(t.Context(), holdfast.Wait(3*time.Second)) // it is logged, once per lock
		}
		blocked := 0
		for _, e := range r.take() {
			if e.Reason == observe.WarnBlocked && strings.Contains(e.Err.Error(), "the logger has not returned") {
				blocked++
			}
		}
		if blocked != 1 {
			t.Errorf("%d warnings", blocked)
		}
		close(until)
		for _, l := range leases {
			_ = l.Release(t.Context())
		}
		_ = c.Close()
	})
}

// A writer is a function that is an io.Writer.
type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}
