package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Nonsense is refused before anything is sent, by every method.
func TestBadNamesAndOptions(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := open(t, p.URL())
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
	for what, o := range map[string]holdfast.Option{
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
		"hectic renewal":    {RenewEvery: 10}, // somebody forgot the unit
		"negative renewal":  {RenewEvery: -1},
		"negative poll":     {PollInterval: -1},
		"negative retry":    {RetryTimeout: -1},
		"negative hand-off": {HandoffTime: -1},
	} {
		_, err := holdfast.Open(t.Context(), s.URL(), o)
		check(what, err)
	}
	_, err := holdfast.New(nil, holdfast.Options{})
	check("no driver", err)
	_, err = holdfast.Open(t.Context(), s.URL(), holdfast.Options{}, holdfast.Options{})
	check("two options", err)
	if n := p.Total() - p.Count("PING"); n != 0 { // whoever is idle for a second sends one
		t.Errorf("%d commands were sent: %v", n, p.Commands())
	}
	l := lock(t, t.Context(), m)
	check("negative extension", l.Extend(t.Context(), -1))
	check("endless extension", l.Extend(t.Context(), math.MaxInt64))
	if !l.Valid() {
		t.Error("a bad extension cost the lease")
	}
	release(t, l)
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
		_, err := holdfast.Open(t.Context(), url)
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", url, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := holdfast.Open(ctx, "redis://127.0.0.1:1"); !errors.Is(err, holdfast.ErrUnavailable) {
		t.Errorf("nobody there: %v, want ErrUnavailable", err)
	}
}

// A password shows in no error and in no line of the log, whatever happens.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	s := redistest.Start(t, "--requirepass", secret)
	p := redistest.NewProxy(t, s.Addr())
	log := new(safeBuffer)
	o := steady // or a standstill ends the lease before a renewal has failed
	o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.RetryTimeout = 5 * time.Second
	var errs []error
	try := func(url string) *holdfast.Client {
		c, err := holdfast.Open(t.Context(), url, o)
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
	if _, err := holdfast.Open(t.Context(), "redis://"+host, o); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("without the password: %v, want ErrRefused", err)
	}
	c := try("redis://:" + secret + "@" + host)
	if c == nil {
		t.Fatal(errs[len(errs)-1])
	}
	defer c.Close()
	l := lock(t, t.Context(), c.Mutex("x"))
	s.Do(t, "CONFIG", "SET", "requirepass", "changed")
	p.Cut() // who connects now is turned away
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

// Servers that cannot or will not serve: each has its own error, and nothing
// is lost.
func TestUnwillingServers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), holdfast.Options{RetryTimeout: 500 * time.Millisecond})
	refuse := func(what string, key string, want error, code string) {
		t.Helper()
		for method, take := range map[string]func(context.Context, ...holdfast.Option) (*holdfast.Lease, error){
			"Lock": c.Mutex(key).Lock, "TryLock": c.Mutex(key).TryLock,
		} {
			start := time.Now()
			_, err := take(t.Context())
			var e *driver.Error
			if !errors.Is(err, want) || !errors.As(err, &e) || e.Code != code {
				t.Errorf("%s, %s: %v, want %v and %s", what, method, err, want, code)
			}
			if errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("%s, %s: %v looks as if somebody held it", what, method, err)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%s, %s: took %v", what, method, took)
			}
		}
	}
	s.Do(t, "SET", "string", "precious")
	refuse("another type", "string", holdfast.ErrRefused, "WRONGTYPE")
	if _, err := c.Mutex("string").TryLock(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "choose another name") {
		t.Errorf("another type: %v", err)
	}
	if got := s.Do(t, "GET", "string"); got != "precious" {
		t.Errorf("the key is now %v", got)
	}
	if _, err := c.Mutex("string").State(t.Context()); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("State of another type: %v", err)
	}

	held := lock(t, t.Context(), c.Mutex("held"))
	nested := lock(t, held.Context(), c.Mutex("held"))
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	refuse("out of memory", "k", holdfast.ErrRefused, "OOM")
	if _, err := c.Mutex("held").Lock(held.Context()); !errors.Is(err, holdfast.ErrRefused) || !held.Valid() {
		t.Errorf("re-entry out of memory: %v, valid %v", err, held.Valid())
	}
	release(t, nested)
	release(t, held) // works although nothing else does
	if s.Int(t, "EXISTS", "held") != 0 {
		t.Error("still locked")
	}
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")

	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	refuse("read-only", "k", holdfast.ErrUnavailable, "READONLY")
	s.Do(t, "REPLICAOF", "NO", "ONE")
	release(t, lock(t, t.Context(), c.Mutex("k")))

	s.Do(t, "ACL", "SETUSER", "default", "resetkeys", "~mine:*")
	refuse("not allowed", "k", holdfast.ErrRefused, "NOPERM")
}

// A server that is read-only for a while, as in a failover, is waited for.
func TestPassingTrouble(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL())
	release(t, lock(t, t.Context(), c.Mutex("x")))
	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	time.AfterFunc(300*time.Millisecond, func() { s.Do(t, "REPLICAOF", "NO", "ONE") })
	release(t, lock(t, t.Context(), c.Mutex("x")))
	s.Do(t, "SCRIPT", "FLUSH")
	release(t, lock(t, t.Context(), c.Mutex("x")))
	s.Stop()
	time.AfterFunc(300*time.Millisecond, s.Restart)
	release(t, lock(t, t.Context(), c.Mutex("x")))
}
