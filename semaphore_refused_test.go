package holdfast_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A client that may not use a semaphore's marks does not trouble the server for
// minutes after each refusal.
func TestRefusedPermitsAreNotUndoneForEver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "narrow", "on", ">secret", "~app:*", "&*", "+@all")
	p := redistest.NewProxy(t, s.Addr())
	sem := open(t, "redis://narrow:secret@"+p.Addr()).Semaphore("app:sem")
	const calls = 500
	for range calls {
		if err := sem.TryAcquire(t.Context(), 1); !errors.Is(err, holdfast.ErrRefused) {
			t.Fatal(err)
		}
	}
	time.Sleep(5 * time.Second)
	p.ResetCounts()
	time.Sleep(5 * time.Second)
	if n := p.Total(); n > calls {
		t.Errorf("%d requests within 5 s, 5 s after %d calls were refused", n, calls)
	}
}
