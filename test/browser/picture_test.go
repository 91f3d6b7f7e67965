package browser

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dashboard"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// TestPicture makes the picture in the README: make dashboard-picture.
func TestPicture(t *testing.T) {
	file := os.Getenv("HOLDFAST_PICTURE")
	if file == "" {
		t.Skip("make dashboard-picture runs it")
	}
	r := newRig(t, dashboard.Options{Title: "production", Every: time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	random := rand.New(rand.NewPCG(1, 2))
	use := func(l holdfast.Locker, least, most time.Duration) {
		hold := least + time.Duration(random.Int64N(int64(most-least)))
		wg.Go(func() {
			for ctx.Err() == nil {
				lease, err := l.Lock(ctx)
				if err != nil {
					return
				}
				select {
				case <-ctx.Done():
				case <-time.After(hold):
				}
				_ = lease.Release(context.WithoutCancel(ctx))
			}
		})
	}
	for i, label := range []string{"checkout", "billing", "import", "search", "mailer"} {
		c := locktest.Open(t, r.redis.URL(), holdfast.Options{Label: label})
		use(c.Mutex("inventory:sku-1138"), 3*time.Second, 9*time.Second)
		use(c.RWMutex("catalog").RLocker(), time.Second, 4*time.Second)
		if err := c.LeasedSemaphore("uploads").Set(ctx, 3); err != nil {
			t.Fatal(err)
		}
		use(c.LeasedSemaphore("uploads").Locker(1), 2*time.Second, 7*time.Second)
		switch i {
		case 0:
			locktest.Must[*holdfast.Lease](t)(c.Election("scheduler").Campaign(ctx, "10.0.3.17:8080"))
			for _, name := range []string{"order:20481", "order:20482", "order:20485", "cart:9f31"} {
				locktest.Lock(t, ctx, c.Mutex(name))
			}
		case 1:
			locktest.Lock(t, ctx, c.FencedMutex("ledger:2026-11"))
			locktest.Lock(t, ctx, c.Mutex("invoice:7713"))
		case 2, 3:
			use(c.FairMutex("report:nightly"), 3*time.Second, 8*time.Second)
			locktest.Lock(t, ctx, c.Mutex([]string{"", "", "import:customers", "index:products"}[i]))
		}
	}
	tab := newTab(t)
	tab.size(1200, 560, "light")
	tab.open(r.url)
	time.Sleep(25 * time.Second) // so that there is something to see
	tab.open(r.url + "?sort=-waiting")
	tab.await("document.getElementById('live').textContent === 'Live'")
	time.Sleep(2 * time.Second)
	list := tab.picture()
	if err := os.WriteFile(file, list, 0o644); err != nil {
		t.Fatal(err)
	}
	if len(list) > 200_000 {
		t.Errorf("the picture has %d bytes", len(list))
	}
}
