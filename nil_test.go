package holdfast_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
)

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
	if len(objects) < 10 {
		t.Fatalf("a client makes only %d kinds of objects", len(objects))
	}
	m := c.Mutex("x")
	return append(objects, m.Object(), c.RWMutex("x").RLocker(), holdfast.NewBucket(c, "x", holdfast.StringCodec{}), holdfast.Multi(m, c.FairMutex("y")), c.LeasedSemaphore("x").Locker(1))
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
	c, err := holdfast.New(d, holdfast.Options{})
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
			more, err := holdfast.New(fake.New(), holdfast.Options{})
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
		methods(ctx, t, "zero", new(holdfast.RedlockMutex))
		methods(ctx, t, "zero", new(inspect.Inspector))
		methods(ctx, t, "zero", new(fence.Script))
	})
	t.Run("functions", func(t *testing.T) {
		var noClient *holdfast.Client
		for name, f := range map[string]any{
			"Open":                      func() error { _, err := holdfast.Open(noContext, "redis://127.0.0.1:1"); return err },
			"OpenConfig":                func() error { _, err := holdfast.OpenConfig(noContext, "x"); return err },
			"New":                       func() error { _, err := holdfast.New(nil, holdfast.Options{}); return err },
			"Do without a lock":         func() error { return holdfast.Do(ctx, nil, func(context.Context) error { return nil }) },
			"Do without a function":     func() error { return holdfast.Do(ctx, c.Mutex("x"), nil) },
			"Do without a context":      func() error { return holdfast.Do(noContext, c.Mutex("x"), func(context.Context) error { return nil }) },
			"DoValue":                   func() error { _, err := holdfast.DoValue[int](ctx, c.Mutex("x"), nil); return err },
			"nil option":                func() error { _, err := c.Mutex("x").TryLock(ctx, nil); return err },
			"nil option of a semaphore": func() error { return c.Semaphore("x", nil).TryAcquire(ctx, 1) },
			"nil hook":                  func() error { _, err := c.Mutex("x").TryLock(ctx, holdfast.OnAcquire(nil)); return err },
			"nil pause":                 func() error { _, err := c.Mutex("x", holdfast.OnRelease(nil)).TryLock(ctx); return err },
			"Multi of nil":              func() error { _, err := holdfast.Multi(nil).TryLock(ctx); return err },
			"Multi of nothing":          func() error { _, err := holdfast.Multi().TryLock(ctx); return err },
			"Multi of zero":             func() error { _, err := holdfast.Multi(new(holdfast.Mutex), c.Mutex("x")).TryLock(ctx); return err },
			"Multi without a client":    func() error { _, err := holdfast.Multi(noClient.Mutex("x")).TryLock(ctx); return err },
			"NewBucket without a codec": func() error { return holdfast.NewBucket[string](c, "x", nil).Set(ctx, "", 0) },
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
