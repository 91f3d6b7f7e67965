package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// rights returns the commands in docs/operations.md that make an operator.
func rights(t *testing.T) (all [][]string) {
	t.Helper()
	text := must(os.ReadFile("../docs/operations.md"))(t)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "ACL SETUSER operator ") {
			all = append(all, strings.Fields(line))
		}
	}
	if len(all) < 3 {
		t.Fatalf("docs/operations.md has %q", all)
	}
	return all
}

// Who has the documented rights can look at all locks and break them; who lacks
// one is told so, or does not see who waits.
func TestRights(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, c := range rights(t) {
		s.Do(t, c...)
	}
	c, _ := open(t, s.URL())
	other, _ := open(t, s.URL())
	_, i := open(t, strings.Replace(s.URL(), "redis://", "redis://operator:secret@", 1))
	ctx := t.Context()
	done(t, c.LeasedSemaphore("permits").Set(ctx, 5))
	take := func(c *holdfast.Client) {
		s.Do(t, "RPUSH", "redisson_lock_queue:{mutex}", "j:1")
		must(c.Election("mutex").Campaign(ctx, "x"))(t)
		must(c.RWMutex("read").RLock(ctx))(t)
		must(c.RWMutex("write").Lock(ctx))(t)
		s.Do(t, "HSET", "many", "mode", "read", "a:1", "1", "b:1", "1")
		for _, key := range []string{"many", "{many}:a:1:rwlock_timeout:1", "{many}:b:1:rwlock_timeout:1"} {
			s.Do(t, "SET", key, "1", "NX")
			s.Do(t, "PEXPIRE", key, "600000")
		}
		must(c.LeasedSemaphore("permits").Acquire(ctx, 1))(t)
	}
	all := func() error {
		for l, err := range i.Locks(ctx, inspect.Query{}) {
			if err != nil {
				return err
			}
			if l, err = i.Lock(ctx, l.Name); err != nil {
				return err
			}
			if l.Clients != 0 {
				return fmt.Errorf("%d clients listen", l.Clients)
			}
		}
		return nil
	}
	take(c)
	if err := all(); err != nil {
		t.Errorf("with all rights: %v", err)
	}
	for name, l := range must(list(t, i, inspect.Query{}))(t) {
		if !must(i.Break(ctx, l))(t) {
			t.Errorf("%s was not broken", name)
		}
	}
	take(other) // c does not know yet that its own were broken
	for _, right := range rights(t)[1][3:] {
		if strings.Contains(right, "pubsub") {
			continue // either of the two is enough
		}
		s.Do(t, "ACL", "SETUSER", "operator", strings.Replace(right, "+", "-", 1))
		if err := all(); right == "+hrandfield" {
			done(t, err) // only data that is not a lock needs it
		} else if !errors.Is(err, holdfast.ErrRefused) || !strings.Contains(err.Error(), "docs/operations.md") {
			t.Errorf("without %s: %v", right, err)
		}
		s.Do(t, "ACL", "SETUSER", "operator", right)
	}
	s.Do(t, "ACL", "SETUSER", "operator", "-pubsub")
	if l := must(i.Lock(ctx, "mutex"))(t); l.Clients >= 0 {
		t.Errorf("without +pubsub: %+v", l)
	}
	s.Do(t, "ACL", "SETUSER", "operator", "resetkeys", "~holdfast:scan:*", "~read*", "~{read*", "~redisson_*:{read*")
	if _, err := list(t, i, inspect.Query{}); !errors.Is(err, holdfast.ErrRefused) || !strings.Contains(err.Error(), "use a pattern") {
		t.Errorf("without keys: %v", err)
	}
	if locks := must(list(t, i, inspect.Query{Match: "read*"}))(t); len(locks) != 1 {
		t.Errorf("by a pattern: %v", locks)
	}
}

// Errors say what is the matter.
func TestErrors(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, i := open(t, s.URL())
	var names []string
	for n := range 2000 {
		names = append(names, fmt.Sprint("key:", n))
	}
	fill(t, c.Driver(), `redis.call('set', KEYS[1], 1)`, names)
	ends := func(ctx context.Context, q inspect.Query, want ...error) {
		t.Helper()
		for _, err := range i.Locks(ctx, q) {
			for _, w := range want {
				if !errors.Is(err, w) {
					t.Errorf("got %v, want %v", err, w)
				}
			}
			return
		}
		t.Error("no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	i = inspect.New(&hooked{Driver: c.Driver(), after: cancel})
	ends(ctx, inspect.Query{Pause: time.Hour}, context.Canceled)
	ends(ctx, inspect.Query{}, context.Canceled)
	for _, q := range []inspect.Query{{Limit: -1}, {Keys: -1}, {Pause: -1}} {
		ends(t.Context(), q, holdfast.ErrInvalid)
	}
	s.Stop()
	ends(t.Context(), inspect.Query{}, holdfast.ErrUnavailable)
	if _, err := i.Lock(t.Context(), "x"); !errors.Is(err, holdfast.ErrUnavailable) {
		t.Error(err)
	}
	if _, err := i.Break(t.Context(), inspect.Lock{Name: "x", Holders: []inspect.Holder{{Owner: "a:1"}}}); !errors.Is(err, holdfast.ErrUnavailable) {
		t.Error(err)
	}
	done(t, c.Close())
	ends(t.Context(), inspect.Query{}, holdfast.ErrClosed)
}

// A hooked driver does something after each call, and is in as many terms more
// as it is told.
type hooked struct {
	driver.Driver
	after func()
	terms uint64
}

func (h *hooked) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	defer h.after()
	return h.Driver.Do(ctx, c)
}

func (h *hooked) Place(key string) driver.Place {
	p := h.Driver.Place(key)
	p.Term += h.terms
	return p
}

// A list is not complete if another server goes on with it.
func TestServerReplaced(t *testing.T) {
	c, _ := open(t, redistest.Shared(t).URL())
	d := &hooked{Driver: c.Driver()}
	d.after = func() { d.terms++ }
	if _, err := list(t, inspect.New(d), inspect.Query{}); !errors.Is(err, holdfast.ErrUnavailable) {
		t.Errorf("the list ended with %v", err)
	}
}

// A lock whose slot is half moved is listed, and can be broken when it has moved.
func TestHalfMoved(t *testing.T) {
	t.Parallel()
	g := redistest.StartCluster(t)
	c, i := open(t, g.URL())
	ctx := t.Context()
	lease := must(c.FencedMutex("lock").Lock(ctx))(t)
	slot := driver.Slot("lock")
	to := g.Masters()[0]
	if g.MasterOfSlot(slot) == to {
		to = g.Masters()[1]
	}
	move := g.BeginMigration(slot, to)
	for _, moved := range []string{"", "lock"} {
		if moved != "" {
			move.Move(moved)
		}
		l := must(list(t, i, inspect.Query{}))(t)["lock"]
		if len(l.Holders) != 1 || l.Holders[0].Owner != lease.Owner() {
			t.Errorf("with %q moved: %+v", moved, l)
		}
	}
	move.Finish()
	if !must(i.Break(ctx, must(i.Lock(ctx, "lock"))(t)))(t) {
		t.Error("not broken")
	}
}

// While slots move away from a master, the first ones first as redis-cli moves
// them, its locks can be listed.
func TestSlotsMoveAway(t *testing.T) {
	t.Parallel()
	g := redistest.StartCluster(t)
	c, _ := open(t, g.URL())
	ctx := t.Context()
	lease := must(c.Mutex("lock").Lock(ctx))(t)
	from, to := g.MasterOfSlot(0), g.Masters()[0]
	if from == to {
		to = g.Masters()[1]
	}
	d := &hooked{Driver: c.Driver()}
	for slot := range 3 {
		var move sync.Once
		d.after = func() {
			move.Do(func() {
				g.Migrate(slot, to)
				for c.Driver().Place(slotKey(slot)).Node != to.Addr() { // until the driver knows
					_, _ = inspect.New(c.Driver()).Lock(ctx, slotKey(slot))
				}
			})
		}
		locks, err := list(t, inspect.New(d), inspect.Query{})
		if err != nil || len(locks["lock"].Holders) != 1 || locks["lock"].Holders[0].Owner != lease.Owner() {
			t.Errorf("while slot %d moves: %v, %v", slot, locks, err)
		}
	}
}

// slotKey returns a name that lives in a slot.
func slotKey(slot int) string {
	for n := 0; ; n++ {
		if name := fmt.Sprint("name:", n); driver.Slot(name) == slot {
			return name
		}
	}
}
