package inspect_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// announced waits until a client has said who it is, and returns that.
func announced(t *testing.T, i *inspect.Inspector, id string) inspect.Client {
	t.Helper()
	var found *inspect.Client
	locktest.Eventually(t, 10*time.Second, "the client says who it is", func() bool {
		c, err := i.Client(t.Context(), id+":1")
		found = c
		return err == nil && c.Known()
	})
	return *found
}

// A client that holds a lock or waits for one says who it is, until it is closed.
func TestClient(t *testing.T) {
	s := redistest.Start(t)
	holder := locktest.Open(t, s.URL(), holdfast.Options{Label: "blue"})
	waiter := locktest.Open(t, s.URL(), holdfast.Options{Label: "green"})
	silent := locktest.Open(t, s.URL(), holdfast.Options{Anonymous: true})
	i := inspect.New(silent.Driver())
	l := locktest.Lock(t, t.Context(), holder.Mutex("a"))
	own := locktest.Lock(t, t.Context(), silent.Mutex("silent"))
	locktest.Release(t, locktest.Lock(t, t.Context(), waiter.Mutex("b"))) // a client that only waits says it later
	go func() { _, _ = waiter.Mutex("a").Lock(t.Context()) }()
	c := announced(t, i, holder.ID())
	host, _ := os.Hostname()
	if c.ID != holder.ID() || c.Java || c.Host != host || c.PID != os.Getpid() || c.Label != "blue" || c.Program == "" || !strings.HasPrefix(c.Library, "holdfast") {
		t.Errorf("%+v", c)
	}
	if since := time.Since(c.Since); since < 0 || since > time.Hour {
		t.Errorf("open for %v", since)
	}
	announced(t, i, waiter.ID())
	lock, err := i.Lock(t.Context(), "a")
	if err != nil || len(lock.Holders) != 1 || len(lock.Queue) != 1 || *lock.Holders[0].Client != c || lock.Queue[0].Client.PID != os.Getpid() {
		t.Errorf("%+v %v", lock, err)
	}
	state, err := silent.Mutex("a").State(t.Context())
	if err != nil || state.Owner != l.Owner() || *state.Client != c {
		t.Errorf("%+v %v", state, err)
	}
	locktest.Lock(t, t.Context(), holder.RWMutex("rw").RLocker())
	if rw, err := silent.RWMutex("rw").State(t.Context()); err != nil || len(rw.Readers) != 1 || *rw.Readers[0].Client != c || rw.Writer.Client != nil {
		t.Errorf("%+v %v", rw, err)
	}
	s.Do(t, "HSET", "java", "0b7a5a0e-6a43-4c0f-9a51-0d5f0a1c2b3d:42", "1")
	s.Do(t, "PEXPIRE", "java", "60000")
	texts := make(map[string]string)
	for lock, err := range i.Locks(t.Context(), inspect.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		texts[lock.Name] = lock.Holders[0].Client.String()
	}
	for name, want := range map[string]string{
		"a":      c.String(),
		"silent": "client " + silent.ID()[:8],
		"java":   "Redisson 0b7a5a0e",
	} {
		if texts[name] != want {
			t.Errorf("%s: held by %q, want %q", name, texts[name], want)
		}
	}
	list := func() (ids []string) {
		for c, err := range i.Clients(t.Context(), inspect.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, c.ID)
		}
		slices.Sort(ids)
		return ids
	}
	want := []string{holder.ID(), waiter.ID()}
	slices.Sort(want)
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("clients %v, want %v", got, want)
	}
	for _, err := range i.Clients(t.Context(), inspect.Query{Limit: 1}) {
		if err != nil && !strings.Contains(err.Error(), "incomplete") {
			t.Error(err)
		}
	}
	_ = own.Release(t.Context())
	_ = holder.Close()
	_ = waiter.Close()
	locktest.Eventually(t, 10*time.Second, "closed clients are not listed", func() bool { return len(list()) == 0 })
}

// A client whose user may not write the key works, and is known by its id.
func TestClientWithoutRight(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "+@all", "~*", "&*")
	s.Do(t, "ACL", "SETUSER", "app", "resetkeys", "~a", "~{a}*", "~redisson_*", "~holdfast:queue:*")
	c := locktest.Open(t, strings.Replace(s.URL(), "://", "://app:secret@", 1), holdfast.Options{Label: "green"})
	l := locktest.Lock(t, t.Context(), c.Mutex("a"))
	locktest.Eventually(t, 20*time.Second, "the client was refused to write the key", func() bool {
		return strings.Contains(fmt.Sprint(s.Do(t, "ACL", "LOG")), "holdfast:client:")
	})
	i := inspect.New(locktest.Open(t, s.URL()).Driver())
	lock, err := i.Lock(t.Context(), "a")
	if err != nil || lock.Holders[0].Client.String() != "client "+c.ID()[:8] {
		t.Errorf("%+v %v", lock, err)
	}
	locktest.Release(t, l)
}

func TestClientString(t *testing.T) {
	for want, c := range map[string]*inspect.Client{
		"unknown":              nil,
		"client a":             {ID: "a-b"},
		"h (pid 7)":            {Host: "h", PID: 7, Library: "holdfast"},
		"h (api, pid 7)":       {Host: "h", PID: 7, Program: "api", Library: "holdfast"},
		"h (blue, pid 7)":      {Host: "h", PID: 7, Program: "api", Label: "blue", Library: "holdfast"},
		"api-7f9 (api, pid 7)": {Host: "h", Pod: "api-7f9", PID: 7, Program: "api", Library: "holdfast"},
		"Redisson 0b7a5a0e":    {ID: "0b7a5a0e-6a43-4c0f-9a51-0d5f0a1c2b3d", Java: true},
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
