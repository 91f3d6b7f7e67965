package drivertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// If a reply is lost, it is not known whether the call has run, and the driver
// must say so.
func testLostReply(t *testing.T, open Open) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d := connect(t, open, p.URL())
	if _, err := d.Do(t.Context(), call(incr, "k")); err != nil {
		t.Fatal(err)
	}
	p.DropReply(1, redistest.Script(incr.SHA))
	r, err := d.Do(t.Context(), call(incr, "k"))
	switch {
	case err == nil && r.Int != s.Int(t, "GET", "k"):
		t.Errorf("reply %d, but the key is %d", r.Int, s.Int(t, "GET", "k"))
	case err != nil && driver.ClassOf(err) != driver.Ambiguous:
		t.Errorf("%v is %v, want ambiguous", err, driver.ClassOf(err))
	}
	if _, err := d.Do(t.Context(), call(incr, "k")); err != nil {
		t.Errorf("the call after a lost reply: %v", err)
	}
}

func testServerGone(t *testing.T, open Open) {
	s := redistest.Start(t)
	d := connect(t, open, s.URL())
	if _, err := d.Do(t.Context(), call(incr, "k")); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	var err error
	for range 3 { // the first call may still use the broken connection
		_, err = d.Do(t.Context(), call(incr, "k"))
	}
	if driver.ClassOf(err) != driver.Definite {
		t.Errorf("server is down: %v is %v, want definite", err, driver.ClassOf(err))
	}
	if _, err := open(t.Context(), s.URL()); err == nil {
		t.Error("connected to a server that is gone")
	}
	s.Restart()
	if !redistest.Poll(10*time.Second, func() bool { _, err = d.Do(t.Context(), call(incr, "k")); return err == nil }) {
		t.Errorf("server is back, but: %v", err)
	}
}

// Timeout is how long a driver should wait for a server that does not answer.
const Timeout = 5 * time.Second

// promptly is the limit for a call to return, on a machine that may pause for
// two seconds. It is shorter than the time that drivers wait for a server.
const promptly = Timeout - time.Second

func testCancel(t *testing.T, open Open) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d := connect(t, open, p.URL())
	for _, callers := range []int{1, 20} {
		r, err := d.Do(t.Context(), call(incr, "k"))
		if err != nil {
			t.Fatal(err)
		}
		p.Freeze()
		var ctx context.Context // set when all callers run
		errs, begun, together := make(chan error, callers), new(sync.WaitGroup), make(chan struct{})
		begun.Add(callers)
		for range callers {
			go func() {
				begun.Done()
				<-together
				_, err := d.Do(ctx, call(incr, "k"))
				errs <- err
			}()
		}
		begun.Wait()
		start := time.Now()
		ctx = redistest.CancelledAfter(t.Context(), 100*time.Millisecond)
		close(together)
		unsent := 0
		for range callers {
			err := <-errs
			switch class := driver.ClassOf(err); {
			case class == driver.Definite && errors.Is(err, context.Canceled):
				unsent++ // the goroutine may have started too late to send anything
			case class != driver.Ambiguous:
				t.Errorf("%d callers: cancelled on the way, %v is %v", callers, err, class)
			}
		}
		if took := time.Since(start); took > 100*time.Millisecond+promptly {
			t.Errorf("%d callers: cancelled after 100ms, returned after %v", callers, took)
		}
		p.Thaw()
		if unsent > 0 {
			var ran int64
			if redistest.Poll(time.Second, func() bool { ran = s.Int(t, "GET", "k") - r.Int; return ran > int64(callers-unsent) }) { // what was sent arrives
				t.Errorf("%d callers: cancelled on the way, %d for certain, and %d have run", callers, unsent, ran)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Do(ctx, call(incr, "k")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
}

func testDeadline(t *testing.T, open Open) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d := connect(t, open, p.URL())
	p.Freeze()
	// Repeat the call: the first one may close the connection, and the next ones
	// then wait for a connection that is being opened.
	for i := range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		start := time.Now()
		_, err := d.Do(ctx, call(incr, "k"))
		if took := time.Since(start); err == nil || took > 100*time.Millisecond+promptly {
			t.Errorf("call %d, deadline of 100ms: %v after %v", i, err, took)
		}
		if driver.ClassOf(err) == driver.Fatal {
			t.Errorf("call %d: %v is fatal", i, err)
		}
		cancel()
	}
}

// A call without a deadline ends even if the server does not answer.
func testSilentServer(t *testing.T, open Open) {
	s := redistest.Start(t)
	d := connect(t, open, s.URL())
	s.Pause()
	defer s.Resume()
	start := time.Now()
	_, err := d.Do(context.Background(), call(incr, "k"))
	if took := time.Since(start); err == nil || took > 2*Timeout {
		t.Errorf("silent server: %v after %v", err, took)
	}
	if driver.ClassOf(err) != driver.Ambiguous {
		t.Errorf("%v is %v, want ambiguous", err, driver.ClassOf(err))
	}
	if ofContext(err) {
		t.Errorf("the caller's context is not done, but the error is that of one: %v", err)
	}
}

// ofContext reports whether an error matches an error of package context.
func ofContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Some callers wait for a connection that other callers have begun to open.
// When the others are canceled, the error of the remaining callers must not
// match an error of a context.
func testOthersGiveUp(t *testing.T, open Open) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d := connect(t, open, p.URL())
	p.Delay(10 * time.Millisecond) // so that opening a connection takes a while
	for range 5 {
		<-redistest.Outage(300*time.Millisecond, func() { // the driver itself retries less and less often
			p.Refuse(true)
			p.Cut()
		}, func() { p.Refuse(false) })
		var wg sync.WaitGroup
		for i := range 5 {
			ctx := redistest.CancelledAfter(t.Context(), time.Duration(i)*10*time.Millisecond)
			wg.Go(func() { _, _ = d.Do(ctx, call(incr, "k")) })
			wg.Go(func() {
				if _, err := d.Do(context.Background(), call(incr, "k")); ofContext(err) {
					t.Errorf("the caller's context is not done, but the error is that of one: %v", err)
				}
			})
			wg.Go(func() {
				if r := d.DoAcked(context.Background(), []driver.Call{call(incr, "k")}, 1, time.Millisecond)[0]; ofContext(r.Err) {
					t.Errorf("the caller's context is not done, but the error is that of one: %v", r.Err)
				}
			})
		}
		wg.Wait()
	}
}

// Calls that are in flight when the driver is closed fail with ErrClosed.
func testClosedMeanwhile(t *testing.T, open Open) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d := connect(t, open, p.URL())
	r, err := d.Do(t.Context(), call(incr, "k")) // so that the server knows the script
	if err != nil {
		t.Fatal(err)
	}
	p.FreezeReplies()
	const callers = 10
	errs, begun := make(chan error, callers), new(sync.WaitGroup)
	begun.Add(callers)
	for range callers {
		go func() {
			begun.Done()
			_, err := d.Do(context.Background(), call(incr, "k"))
			errs <- err
		}()
	}
	begun.Wait()
	if !redistest.Poll(10*time.Second, func() bool { return s.Int(t, "GET", "k") > r.Int }) {
		t.Fatal("no call is in flight")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for range callers {
		if err := <-errs; !errors.Is(err, driver.ErrClosed) || ofContext(err) {
			t.Errorf("call under way while the driver is closed: %v", err)
		}
	}
}

func testClose(t *testing.T, open Open) {
	s := redistest.Start(t)
	d := connect(t, open, s.URL())
	h := NewRecorder()
	l := d.Listen(h)
	l.Subscribe("c")
	h.Want(t, "+c")
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.Do(t.Context(), call(incr, "k")); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("call after Close: %v", err)
	}
	if r := d.DoMany(t.Context(), []driver.Call{call(incr, "k")}); !errors.Is(r[0].Err, driver.ErrClosed) {
		t.Errorf("calls after Close: %v", r)
	}
	waitChannels(t, s, 0)
}
