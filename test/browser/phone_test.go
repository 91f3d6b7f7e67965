package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dashboard"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// On a phone, captions have the width of the page, and texts of pictures can be read.
func TestPhone(t *testing.T) {
	r := newRig(t, dashboard.Options{AllowBreak: true, Title: "test", Observer: new(dashboard.Observer)})
	ctx := t.Context()
	var clients []*holdfast.Client
	var leases []*holdfast.Lease
	for i := range 2 {
		c := locktest.Open(t, r.redis.URL(), holdfast.Options{Label: fmt.Sprint("worker-", i)})
		clients, leases = append(clients, c), append(leases, locktest.Lock(t, ctx, c.Mutex(fmt.Sprint("lock ", i))))
	}
	for i, c := range clients {
		go func() { _, _ = c.Mutex(fmt.Sprint("lock ", 1-i)).Lock(leases[i].Context()) }()
	}
	if err := clients[0].LeasedSemaphore("uploads").Set(ctx, 2); err != nil {
		t.Fatal(err)
	}
	locktest.Must[*holdfast.Lease](t)(clients[0].LeasedSemaphore("uploads").Acquire(ctx, 2))
	locktest.Must[bool](t)(clients[0].RateLimiter("mail").TrySetRate(ctx, holdfast.Rate{Permits: 10, Per: time.Hour}))
	tab := newTab(t)
	for _, width := range []int64{320, 390, 600, 760, 1000, 1200} {
		tab.size(width, 844, "light")
		for path, ready := range map[string]string{
			"":                  "document.querySelectorAll('#locks tbody tr').length === 3",
			"lock?name=lock+0":  "document.querySelector('#timeline-narrow rect') && document.querySelector('#timeline rect')",
			"clients":           "document.querySelectorAll('#clients tbody tr').length >= 2",
			"deadlocks":         "document.querySelectorAll('#cycle-narrow path').length === 4 && document.querySelectorAll('#cycle path').length === 4",
			"limits":            "document.querySelectorAll('#semaphores meter, #limiters meter').length === 2",
			"plots":             "document.querySelector('#plot-held path.line')",
			"servers":           "document.querySelector('#servers tbody tr')",
			"break?name=lock+0": "document.querySelector('#holders tbody tr')",
		} {
			tab.open(r.url + path)
			tab.await(ready)
			if wide := eval[int64](tab, "document.documentElement.scrollWidth"); wide > width {
				t.Errorf("%q is %d px wide in a window of %d px", path, wide, width)
			}
			// A caption that is narrower than its table breaks its text.
			for _, bad := range eval[[]string](tab, `[...document.querySelectorAll('caption, figcaption')].filter((e) => e.offsetParent && getComputedStyle(e).position !== 'absolute')
				.filter((e) => e.getBoundingClientRect().width < 0.8 * e.parentElement.getBoundingClientRect().width)
				.map((e) => e.textContent + ' ' + e.getBoundingClientRect().width)`) {
				t.Errorf("%q at %d px: a narrow caption: %s", path, width, bad)
			}
			sizes := eval[[]float64](tab, `[...document.querySelectorAll('svg text')].filter((e) => e.getClientRects().length > 0 && e.getBoundingClientRect().width > 0)
				.map((e) => parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a)`)
			for _, px := range sizes {
				if px < 9.9 || px > 24 {
					t.Errorf("%q at %d px: a text of %.1f px", path, width, px)
					break
				}
			}
			if pictures := eval[int](tab, "[...document.querySelectorAll('figure')].filter((e) => e.offsetParent).length"); pictures > 0 && len(sizes) == 0 {
				t.Errorf("%q at %d px: the pictures have no texts", path, width)
			}
			if over := eval[int](tab, `[...document.querySelectorAll('figure svg text')].filter((e) => e.getClientRects().length > 0)
				.filter((e) => { const [t, f] = [e.getBoundingClientRect(), e.closest('figure').getBoundingClientRect()]; return t.left < f.left || t.right > f.right + 1 }).length`); over > 0 {
				t.Errorf("%q at %d px: %d texts are outside of their picture", path, width, over)
			}
		}
	}
}
