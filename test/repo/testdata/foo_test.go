package conformance_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestFooClaims is added to the contract by TestRecipe. A free foo, and one that a call waits
// for, are acquired by the script of the recipe, and by no script of another kind.
func TestFooClaims(t *testing.T) {
	ctx := context.Background()
	s := redistest.Start(t)
	config := locktest.Must[rueidis.Config](t)(rueidis.ParseURL(s.URL()))
	d := &sentScripts{Driver: locktest.Must[driver.Driver](t)(rueidis.Open(ctx, config))}
	c := locktest.Must[*holdfast.Client](t)(holdfast.New(d, &holdfast.Options{Anonymous: true}))
	defer c.Close()
	other := locktest.Open(t, s.URL())

	locktest.Release(t, locktest.Lock(t, ctx, c.Foo("f")))
	held := locktest.Lock(t, ctx, other.Foo("f"))
	waiting := locktest.Background(ctx, c.Foo("f"))
	locktest.AwaitListener(t, s, "redisson_lock__channel:{f}")
	locktest.Release(t, held)
	locktest.Release(t, locktest.Entered(t, waiting))

	d.mu.Lock()
	defer d.mu.Unlock()
	slices.Sort(d.names)
	if got, want := slices.Compact(d.names), []string{"foo_acquire", "mutex_release"}; !slices.Equal(got, want) {
		t.Errorf("a foo was acquired and released by the scripts %v, want %v", got, want)
	}
}

// sentScripts is a driver that records which scripts are sent.
type sentScripts struct {
	driver.Driver
	mu    sync.Mutex
	names []string
}

func (s *sentScripts) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	s.mu.Lock()
	s.names = append(s.names, call.Script.Name)
	s.mu.Unlock()
	return s.Driver.Do(ctx, call)
}
