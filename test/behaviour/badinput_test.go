package behaviour_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// Nonsense is refused before anything is sent, by every method.
func TestBadNamesAndOptions(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := locktest.Open(t, p.URL())
	p.ResetCounts()
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
		var e *holdfast.Error
		if !errors.As(err, &e) || e.Op == "" || len(err.Error()) > 400 {
			t.Errorf("%s: error of length %d: %v", what, len(err.Error()), err)
		}
	}
	for _, n := range []string{"", strings.Repeat("x", 1<<20), "a\x00b", "new\nline", "a}b", "a{b", "a{}b", "\xff\xfe", "redisson_lock_queue:{a}"} {
		m := c.Mutex(n)
		_, err := m.Lock(t.Context())
		check(fmt.Sprintf("Lock %.20q", n), err)
		_, err = m.TryLock(t.Context())
		check(fmt.Sprintf("TryLock %.20q", n), err)
		_, err = m.State(t.Context())
		check(fmt.Sprintf("State %.20q", n), err)
		_, err = m.ForceUnlock(t.Context())
		check(fmt.Sprintf("ForceUnlock %.20q", n), err)
		check(fmt.Sprintf("Do %.20q", n), m.Do(t.Context(), func(context.Context) error { return nil }))
	}
	m := c.Mutex("good")
	for what, o := range map[string]holdfast.LockOption{
		"nothing":           nil,
		"negative lease":    holdfast.LeaseTime(-time.Second),
		"no lease":          holdfast.LeaseTime(0),
		"tiny lease":        holdfast.LeaseTime(time.Microsecond),
		"endless lease":     holdfast.LeaseTime(math.MaxInt64),
		"negative wait":     holdfast.Wait(-1),
		"most negative":     holdfast.Wait(math.MinInt64),
		"negative backoff":  holdfast.Poll(holdfast.Backoff{Initial: -1}),
		"backward backoff":  holdfast.Poll(holdfast.Backoff{Initial: time.Second, Max: time.Millisecond}),
		"shrinking backoff": holdfast.Poll(holdfast.Backoff{Multiplier: -2}),
	} {
		_, err := m.Lock(t.Context(), o)
		check(what, err)
		_, err = c.Mutex("good", o).TryLock(t.Context())
		check(what, err)
	}
	for what, o := range map[string]holdfast.Options{
		"negative watchdog": {WatchdogTimeout: -1},
		"tiny watchdog":     {WatchdogTimeout: time.Millisecond},
		"endless watchdog":  {WatchdogTimeout: math.MaxInt64},
		"lazy renewal":      {RenewEvery: time.Minute},
		"hectic renewal":    {RenewEvery: 10}, // a forgotten unit
		"negative renewal":  {RenewEvery: -1},
		"negative poll":     {PollInterval: -1},
		"negative retry":    {RetryTimeout: -1},
		"negative hand-off": {HandoffTime: -1},
	} {
		_, err := holdfast.Open(t.Context(), s.URL(), &o)
		check(what, err)
	}
	_, err := holdfast.New(nil, nil)
	check("no driver", err)
	if n := p.Total() - p.Count("PING"); n != 0 { // an idle connection sends one every second
		t.Errorf("%d commands were sent: %v", n, p.Commands())
	}
	l := locktest.Lock(t, t.Context(), m)
	check("negative extension", l.Extend(t.Context(), -1))
	check("endless extension", l.Extend(t.Context(), math.MaxInt64))
	if !l.Valid() {
		t.Error("a bad extension cost the lease")
	}
	locktest.Release(t, l)
	if err := l.Extend(t.Context(), time.Minute); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("extend after release: %v", err)
	}
}

func TestBadURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "localhost:6379", "http://localhost", "redis://", "redis://host:99999", "redis://host:x", "redis://host/db0", "redis://host/-1",
		"redis://host?unknown=1", "redis://host?timeout=fast", "redis://host?timeout=-1s", "redis://host?protocol=4", "redis://host?db=0&db=1",
		"redis://a,,b", "redis-sentinel://a,b/mymaster", "redis-cluster://a/1", "unix://", "redis://host#x", "redis://secret@host", "redis://host/1?db=2",
		"redis://:pa%zzss@host", "rediss://host?tls_cert=x.pem", "rediss://host?tls_ca=/does/not/exist", "redis://host?tls_ca=x",
	} {
		_, err := holdfast.Open(t.Context(), url, nil)
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", url, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := holdfast.Open(ctx, "redis://127.0.0.1:1", nil); !errors.Is(err, holdfast.ErrUnavailable) {
		t.Errorf("no server: %v, want ErrUnavailable", err)
	}
}

// A password shows in no error and in no line of the log, whatever happens.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	s := redistest.Start(t, "--requirepass", secret)
	p := redistest.NewProxy(t, s.Addr())
	log := new(locktest.Buffer)
	o := locktest.Steady // or a standstill ends the lease before a renewal has failed
	o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.RetryTimeout = 5 * time.Second
	var errs []error
	try := func(url string) *holdfast.Client {
		c, err := holdfast.Open(t.Context(), url, &o)
		errs = append(errs, err)
		return c
	}
	host := p.Addr()
	try("redis://:" + secret + "@" + host + "/nonsense")
	try("redis://:" + secret + "%zz@" + host)
	try("redis://user:" + secret + "@" + host)
	try("redis://:" + secret + "wrong@" + host)
	try("nonsense://:" + secret + "@" + host)
	try("redis://:" + secret + "@127.0.0.1:1")
	if _, err := holdfast.Open(t.Context(), "redis://"+host, &o); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("without the password: %v, want ErrRefused", err)
	}
	c := try("redis://:" + secret + "@" + host)
	if c == nil {
		t.Fatal(errs[len(errs)-1])
	}
	defer c.Close()
	l := locktest.Lock(t, t.Context(), c.Mutex("x"))
	s.Do(t, "CONFIG", "SET", "requirepass", "changed")
	p.Cut() // new connections are refused from now on
	_, err := c.Mutex("y").Lock(t.Context())
	errs = append(errs, err)
	if !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("password changed: %v, want ErrRefused", err)
	}
	<-l.Context().Done()
	errs = append(errs, l.Release(t.Context()), context.Cause(l.Context()))
	_ = c.Close()
	text := fmt.Sprintf("%v %+v %#v %s", errs, errs, c, log.String())
	if strings.Contains(text, "hunter2") {
		t.Errorf("the password shows: %s", text)
	}
	if !strings.Contains(log.String(), "cannot renew") {
		t.Errorf("the log says nothing of failed renewals: %s", log.String())
	}
}

// An option that does not apply is refused, not ignored. Of most, the compiler says so.
func TestNoOptionIsIgnored(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	for _, err := range c.Election(locktest.Name(t)).Observe(t.Context(), holdfast.Wait(time.Second)) {
		if errors.Is(err, holdfast.ErrInvalid) {
			return
		}
		t.Fatalf("Election.Observe with Wait: error %v", err)
	}
}

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()

	noContext context.Context // is nil
)

// argument returns something that a method can do with, in place of a type.
func argument(ctx context.Context, t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch {
	case t == contextType && ctx != nil:
		v.Set(reflect.ValueOf(ctx))
	case t == reflect.TypeFor[time.Duration]():
		v.SetInt(int64(time.Second))
	case t == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Now().Add(time.Hour)))
	case t == reflect.TypeFor[holdfast.Rate]():
		v.Set(reflect.ValueOf(holdfast.Rate{Permits: 1, Per: time.Second}))
	case t == reflect.TypeFor[func(context.Context) error]():
		v.Set(reflect.ValueOf(func(context.Context) error { panic("it must not be called") }))
	case v.CanInt():
		v.SetInt(1)
	case t.Kind() == reflect.String:
		v.SetString("x")
	}
	return v
}

// tried calls a function and returns the error in its results, also of an
// iteration, and what it panicked with. It reports whether the function has a
// place for an error.
func tried(ctx context.Context, f reflect.Value) (panicked any, hasError bool, err error) {
	defer func() { panicked = recover() }()
	var in []reflect.Value
	n := f.Type().NumIn()
	if f.Type().IsVariadic() {
		n--
	}
	for i := range n {
		in = append(in, argument(ctx, f.Type().In(i)))
	}
	for _, r := range f.Call(in) {
		if r.Kind() == reflect.Func && r.Type().CanSeq2() {
			hasError = true
			for _, e := range r.Seq2() {
				err, _ = e.Interface().(error)
				break
			}
		}
		if r.Type() == errorType {
			hasError = true
			err, _ = r.Interface().(error)
		}
	}
	return nil, hasError, err
}

// judge wants a typed error, or a panic that says what to change. A method without
// an error may also just return.
func judge(ctx context.Context, t *testing.T, what string, f reflect.Value) {
	t.Helper()
	panicked, hasError, err := tried(ctx, f)
	var raw runtime.Error
	switch {
	case panicked != nil:
		if e, ok := panicked.(error); ok && errors.As(e, &raw) || !strings.HasPrefix(fmt.Sprint(panicked), "holdfast: ") {
			t.Errorf("%s panics with %v", what, panicked)
		}
	case hasError && !errors.Is(err, holdfast.ErrInvalid) && !errors.Is(err, holdfast.ErrNotHeld) && !errors.Is(err, fence.ErrInvalid) && !errors.Is(err, holdfast.ErrUnsupported):
		t.Errorf("%s returns %v, want ErrInvalid", what, err)
	}
}

func methods(ctx context.Context, t *testing.T, what string, v any, skip ...string) {
	t.Helper()
	r := reflect.ValueOf(v)
	for i := range r.NumMethod() {
		name := r.Type().Method(i).Name
		if !strings.Contains(" "+strings.Join(skip, " ")+" ", " "+name+" ") {
			judge(ctx, t, fmt.Sprintf("%s: %T.%s", what, v, name), r.Method(i))
		}
	}
}

// makers are the methods of a client that make objects, and what they make.
func makers(t *testing.T, c *holdfast.Client) (objects []any) {
	t.Helper()
	r := reflect.ValueOf(c)
	for i := range r.NumMethod() {
		m := r.Type().Method(i)
		if m.Type.NumOut() != 1 || m.Type.Out(0).Kind() != reflect.Pointer {
			continue
		}
		objects = append(objects, r.Method(i).Call([]reflect.Value{reflect.ValueOf("x")})[0].Interface())
	}
	if len(objects) < 9 {
		t.Fatalf("a client makes only %d kinds of objects", len(objects))
	}
	for _, o := range objects {
		if locktest.ObjectOf(o) == nil {
			t.Errorf("%T is no object: add it to object.Kind", o)
		}
	}
	m := c.Mutex("x")
	objects = append(objects, object.Of(m), object.NewAtomicLong(c, "x"), object.NewBucket(c, "x", object.StringCodec{}), object.NewIDGenerator(c, "x"), object.NewTimeID(c, "x"))
	return append(objects, c.RWMutex("x").RLocker(), holdfast.MultiLocker(m, c.FairMutex("y")), c.LeasedSemaphore("x").Locker(1))
}

// Whatever is nil or a zero value, a call returns a typed error, or panics in the
// goroutine of the caller with words that say what to change.
func TestNilAndZero(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := fake.New()
	d.Fail(func(call driver.Call) error {
		t.Errorf("%s was sent", call.Script.Name)
		return nil
	})
	c, err := holdfast.New(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	t.Run("no context", func(t *testing.T) {
		for _, o := range makers(t, c) {
			methods(noContext, t, "no context", o)
		}
		methods(noContext, t, "no context", c, "Close")
		clients := []*holdfast.Client{c}
		for range 2 {
			more, err := holdfast.New(fake.New(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer more.Close()
			clients = append(clients, more)
		}
		votes, err := holdfast.NewRedlock(clients, holdfast.RedlockOptions{})
		if err != nil {
			t.Fatal(err)
		}
		methods(noContext, t, "no context", votes.Mutex("x"))
	})
	for name, none := range map[string]*holdfast.Client{"nil client": nil, "zero client": new(holdfast.Client)} {
		t.Run(name, func(t *testing.T) {
			for _, o := range makers(t, none) {
				methods(ctx, t, name, o)
				methods(noContext, t, name+", no context", o)
			}
			methods(ctx, t, name, none)
		})
	}
	t.Run("zero objects", func(t *testing.T) {
		for _, o := range makers(t, c) {
			if _, ok := o.(interface{ Locker(int) holdfast.Locker }); ok && reflect.TypeOf(o).Elem().Name() == "permitLocker" {
				continue // users cannot make one
			}
			zero := reflect.New(reflect.TypeOf(o).Elem()).Interface()
			methods(ctx, t, "zero", zero)
			methods(noContext, t, "zero, no context", zero)
		}
		methods(ctx, t, "zero", new(holdfast.Lease))
		methods(ctx, t, "zero", new(holdfast.Reservation))
		methods(ctx, t, "zero", new(holdfast.Redlock))
		methods(ctx, t, "zero", new(holdfast.Redlock).Mutex("x"))
		methods(ctx, t, "zero", new(inspect.Inspector))
		methods(ctx, t, "zero", new(fence.Script))
	})
	t.Run("functions", func(t *testing.T) {
		var noClient *holdfast.Client
		for name, f := range map[string]any{
			"Open":       func() error { _, err := holdfast.Open(noContext, "redis://127.0.0.1:1", nil); return err },
			"OpenConfig": func() error { _, err := holdfast.OpenConfig(noContext, "x", nil); return err },
			"New":        func() error { _, err := holdfast.New(nil, nil); return err },
			"DoValue without a lock": func() error {
				_, err := holdfast.DoValue(ctx, nil, func(context.Context) (int, error) { return 0, nil })
				return err
			},
			"Do without a function":     func() error { return c.Mutex("x").Do(ctx, nil) },
			"Do without a context":      func() error { return c.Mutex("x").Do(noContext, func(context.Context) error { return nil }) },
			"DoValue":                   func() error { _, err := holdfast.DoValue[int](ctx, c.Mutex("x"), nil); return err },
			"nil option":                func() error { _, err := c.Mutex("x").TryLock(ctx, nil); return err },
			"nil option of a semaphore": func() error { return c.Semaphore("x", nil).TryAcquire(ctx, 1) },
			"nil hook":                  func() error { _, err := c.Mutex("x").TryLock(ctx, holdfast.OnAcquire(nil)); return err },
			"nil pause":                 func() error { _, err := c.Mutex("x", holdfast.OnRelease(nil)).TryLock(ctx); return err },
			"Multi of nil":              func() error { _, err := holdfast.MultiLocker(nil).TryLock(ctx); return err },
			"Multi of nothing":          func() error { _, err := holdfast.MultiLocker().TryLock(ctx); return err },
			"Multi of zero": func() error {
				_, err := holdfast.MultiLocker(new(holdfast.Mutex), c.Mutex("x")).TryLock(ctx)
				return err
			},
			"Multi without a client":    func() error { _, err := holdfast.MultiLocker(noClient.Mutex("x")).TryLock(ctx); return err },
			"NewBucket without a codec": func() error { return object.NewBucket[string](c, "x", nil).Set(ctx, "", 0) },
			"Proclaim":                  func() error { return c.Election("x").Proclaim(ctx, nil, "me") },
			"Proclaim with a zero":      func() error { return c.Election("x").Proclaim(ctx, new(holdfast.Lease), "me") },
			"NewRedlock":                func() error { _, err := holdfast.NewRedlock(nil, holdfast.RedlockOptions{}); return err },
			"NewRedlock of nil": func() error {
				_, err := holdfast.NewRedlock([]*holdfast.Client{nil, nil, nil}, holdfast.RedlockOptions{})
				return err
			},
			"NewRedlock of zero": func() error {
				_, err := holdfast.NewRedlock([]*holdfast.Client{new(holdfast.Client), new(holdfast.Client), new(holdfast.Client)}, holdfast.RedlockOptions{})
				return err
			},
			"fence.Run":             func() error { _, err := fence.NewScript("return 1").Run(ctx, nil, "x", 1, nil, nil); return err },
			"fence.Run, no context": func() error { _, err := fence.NewScript("return 1").Run(noContext, d, "x", 1, nil, nil); return err },
			"SQL.Check":             func() error { return fence.SQL{}.Check(ctx, nil, "x", 1) },
			"SQL.Check, no context": func() error { return fence.SQL{}.Check(noContext, new(sql.Tx), "x", 1) },
			"SQL.CreateTable":       func() error { return fence.SQL{}.CreateTable(ctx, nil) },
			"LeaseOf":               func() { holdfast.LeaseOf(noContext) },
			"Detach":                func() { holdfast.Detach(noContext) },
			"SyncLocker":            func() { holdfast.SyncLocker(noContext, c.Mutex("x")) },
			"SyncLocker of nil":     func() { holdfast.SyncLocker(ctx, nil) },
			"inspect.New":           func() error { _, err := inspect.New(nil).Lock(ctx, "x"); return err },
			"Inspector.Lock":        func() error { _, err := inspect.New(d).Lock(noContext, "x"); return err },
			"Inspector.Break": func() error {
				_, err := inspect.New(d).Break(noContext, inspect.Lock{Name: "x", Holders: []inspect.Holder{{Owner: "a:1"}}})
				return err
			},
		} {
			judge(ctx, t, name, reflect.ValueOf(f))
		}
		methods(noContext, t, "no context", inspect.New(d), "Break")
	})
}

// What cannot be meant is refused before anything is sent.
func TestNonsense(t *testing.T) {
	c := locktest.Open(t, redistest.Shared(t).URL())
	n := locktest.Name(t)
	ctx := t.Context()
	var none *holdfast.Mutex
	for what, err := range map[string]error{
		"Do without a function":        c.Mutex(n).Do(ctx, nil),
		"DoValue without a lock":       second(holdfast.DoValue[int](ctx, nil, func(context.Context) (int, error) { return 0, nil })),
		"DoValue without a function":   second(holdfast.DoValue[int](ctx, c.Mutex(n), nil)),
		"a set with a nil mutex":       second(holdfast.MultiLocker(c.Mutex(n), none).Lock(ctx)),
		"a set of nothing":             second(holdfast.MultiLocker().Lock(ctx)),
		"OnAcquire without a function": second(c.Mutex(n).Lock(ctx, holdfast.OnAcquire(nil))),
		"OnRelease without a function": second(c.Mutex(n).Lock(ctx, holdfast.OnRelease(nil))),
	} {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if redistest.Shared(t).Int(t, "EXISTS", n) != 0 {
		t.Error("something was locked all the same")
	}
}

func second[T any](_ T, err error) error { return err }
