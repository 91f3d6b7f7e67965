package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// The scripts of a set of mutexes, and of one.
const (
	takeThree, freeThree = "mutexes_acquire", "mutex_release_batch"
	freeOne              = "mutex_release"
)

// joinedSet runs a test with a set of the mutexes a, b and c. The driver records the
// scripts that it runs.
func joinedSet(t *testing.T, test func(t *testing.T, d *wrapped, wants []*Want, ran *[]string)) {
	synctest.Test(t, func(t *testing.T) {
		d := wrap(fake.New())
		var mu sync.Mutex
		var ran []string
		d.do = func(ctx context.Context, c driver.Call) (driver.Reply, error) {
			mu.Lock()
			ran = append(ran, c.Script.Name)
			mu.Unlock()
			return d.Driver.Do(ctx, c)
		}
		e := New(d, options)
		defer e.Close(time.Second)
		var wants []*Want
		for _, name := range []string{"c", "a", "b"} {
			wants = append(wants, &Want{Engine: e, Kind: script.NewMutex(name), User: new(user)})
		}
		if err := AcquireAll(t.Context(), wants, Request{}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(ran, []string{takeThree}) {
			t.Errorf("taken by %v", ran)
		}
		ran = nil
		test(t, d, wants, &ran)
	})
}

// releaseWants releases the holds of wants together, and returns the errors in their order.
func releaseWants(wants []*Want) (errs []error) {
	var all []Departure
	for _, w := range wants {
		all = append(all, Departure{Hold: w.Hold, User: w.User, Renewed: true})
	}
	ReleaseAll(all)
	for _, d := range all {
		errs = append(errs, d.Err)
	}
	return errs
}

// free checks that no owner holds these locks.
func free(t *testing.T, d *wrapped, names ...string) {
	t.Helper()
	for _, name := range names {
		if owner := d.Holder(name); owner != "" {
			t.Errorf("%s is still held by %s", name, owner)
		}
	}
}

// Locks of one server are released with one request. What the server says of one of them does
// not concern the others.
func TestReleaseAll(t *testing.T) {
	lost := func(d *wrapped, _ []*Want) { d.Delete("a") }
	answers := func(alter func(*driver.Reply) error) func(*wrapped, []*Want) {
		return func(d *wrapped, _ []*Want) {
			do := d.do
			d.do = func(ctx context.Context, c driver.Call) (driver.Reply, error) {
				r, err := do(ctx, c)
				if c.Script.Name == freeThree && err == nil {
					err = alter(&r)
				}
				return r, err
			}
		}
	}
	fails := func(errs ...error) func(*wrapped, []*Want) {
		return func(d *wrapped, _ []*Want) {
			n := 0
			d.Fail(func(driver.Call) error {
				err := errs[min(n, len(errs)-1)]
				n++
				return err
			})
		}
	}
	all := []error{nil, nil, nil}
	for _, test := range []struct {
		name  string
		given func(*wrapped, []*Want)
		want  []error // of c, a and b
		ran   []string
	}{
		{"held", func(*wrapped, []*Want) {}, all, []string{freeThree}},
		{"one is lost", lost, []error{nil, ErrLost, nil}, []string{freeThree}},
		{"a call fails after it was executed", answers(func(r *driver.Reply) error {
			r.List[0] = driver.Reply{Type: driver.List, List: []driver.Reply{{Type: driver.Int, Int: 2}}}
			return nil
		}), all, []string{freeThree, freeOne}},
		{"all are refused together, but not alone", fails(forbidden, nil), all, []string{freeThree, freeOne, freeOne, freeOne}},
		{"all are refused", fails(forbidden), []error{ErrRefused, ErrRefused, ErrRefused}, []string{freeThree, freeOne, freeOne, freeOne}},
		{"the answer is lost", fails(lostReply, nil), all, []string{freeThree, freeOne, freeOne, freeOne}},
		{"not sent at first", fails(noNetwork, nil), all, []string{freeThree, freeOne, freeOne, freeOne}},
		{"unreachable", fails(noNetwork), []error{ErrUnavailable, ErrUnavailable, ErrUnavailable}, nil},
		{"not an answer", answers(func(r *driver.Reply) error {
			*r = driver.Reply{Type: driver.Str, Str: "OK"}
			return nil
		}), []error{ErrRefused, ErrRefused, ErrRefused}, []string{freeThree}},
	} {
		t.Run(test.name, func(t *testing.T) {
			joinedSet(t, func(t *testing.T, d *wrapped, wants []*Want, ran *[]string) {
				test.given(d, wants)
				began := time.Now()
				errs := releaseWants(wants)
				for i, err := range errs {
					if !errors.Is(err, test.want[i]) || test.want[i] == nil && err != nil {
						t.Errorf("%s: %v, want %v", wants[i].Kind.Gate(), err, test.want[i])
					}
				}
				if test.ran != nil && !slices.Equal((*ran)[:min(len(*ran), len(test.ran))], test.ran) {
					t.Errorf("ran %v, want %v", *ran, test.ran)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("took %v", took)
				}
				d.Fail(nil)
				time.Sleep(time.Minute) // what failed is freed in the background
				free(t, d, "a", "b", "c")
				for _, w := range wants {
					if told := w.User.(*user).told(); len(told) != 0 {
						t.Errorf("%s: its user is told of a loss: %v", w.Kind.Gate(), told)
					}
				}
			})
		})
	}
}

// A lock that others use is not freed with the rest.
func TestReleaseAllNested(t *testing.T) {
	joinedSet(t, func(t *testing.T, d *wrapped, wants []*Want, ran *[]string) {
		inner, h := new(user), wants[1].Hold
		pass, _ := h.Current()
		if err := h.Reenter(t.Context(), pass, Request{}, inner); err != nil {
			t.Fatal(err)
		}
		*ran = nil
		if errs := releaseWants(wants); errors.Join(errs...) != nil {
			t.Error(errs)
		}
		free(t, d, "b", "c")
		if d.Holder("a") != h.Owner() || !h.Valid() {
			t.Error("the lock that was entered again is free")
		}
		slices.Sort(*ran)
		if !slices.Equal(*ran, []string{freeOne, freeThree}) {
			t.Errorf("ran %v", *ran)
		}
		if err := h.Release(inner, true); err != nil {
			t.Error(err)
		}
		free(t, d, "a")
	})
}

// A lock that has to stay is not freed with the rest.
func TestReleaseAllKept(t *testing.T) {
	joinedSet(t, func(t *testing.T, d *wrapped, wants []*Want, _ *[]string) {
		wants[1].Hold.KeepUntil(clock.Now() + 5*time.Second)
		if errs := releaseWants(wants); errors.Join(errs...) != nil {
			t.Error(errs)
		}
		free(t, d, "b", "c")
		if left := d.Remaining("a"); left < 4*time.Second || left > 6*time.Second {
			t.Errorf("it stays for %v", left)
		}
		time.Sleep(6 * time.Second)
		free(t, d, "a")
	})
}

// A lock with an extension under way does not delay the others.
func TestReleaseAllBehindExtension(t *testing.T) {
	joinedSet(t, func(t *testing.T, d *wrapped, wants []*Want, _ *[]string) {
		h := wants[1].Hold
		h.enterForRelease()
		done := make(chan []error)
		go func() { done <- releaseWants(wants) }()
		synctest.Wait()
		free(t, d, "b", "c")
		if d.Holder("a") == "" {
			t.Error("the lock is free before the extension has ended")
		}
		h.nest.Unlock()
		if errs := <-done; errors.Join(errs...) != nil {
			t.Error(errs)
		}
		free(t, d, "a")
	})
}

// The locks of several servers are released at the same time, and a server that is
// unreachable does not concern the others.
func TestReleaseAllOfEngines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := fake.New(), fake.New()
		a, b := over(t, good), over(t, bad)
		var all []Departure
		for i, e := range []*Engine{a, b, a, b} {
			u := new(user)
			h, err := e.Acquire(t.Context(), script.NewMutex(fmt.Sprint(i)), Request{}, u)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, Departure{Hold: h, User: u, Renewed: true})
		}
		bad.Fail(func(driver.Call) error { return noNetwork })
		ReleaseAll(all)
		for _, d := range all {
			if d.Hold.e == a && d.Err != nil || d.Hold.e == b && !errors.Is(d.Err, ErrUnavailable) {
				t.Errorf("%s: %v", d.Hold.Ref.Key, d.Err)
			}
		}
		bad.Fail(nil)
		time.Sleep(time.Minute)
		for i, d := range []*fake.Driver{good, bad, good, bad} {
			if owner := d.Holder(fmt.Sprint(i)); owner != "" {
				t.Errorf("%d is still held by %s", i, owner)
			}
		}
	})
}

// A release after Close reports the loss that Close has caused.
func TestReleaseAllAfterClose(t *testing.T) {
	joinedSet(t, func(t *testing.T, d *wrapped, wants []*Want, _ *[]string) {
		wants[0].Engine.Close(time.Second)
		for _, err := range releaseWants(wants) {
			if !errors.Is(err, ErrLost) {
				t.Errorf("error %v", err)
			}
		}
		free(t, d, "a", "b", "c")
		for _, w := range wants {
			if told := w.User.(*user).told(); !slices.Equal(told, []watchdog.Reason{watchdog.Closed}) {
				t.Errorf("told %v", told)
			}
		}
	})
}
