package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/dashboard"
)

const (
	outOfDate = "document.getElementById('live').textContent === 'Out of date' && document.body.classList.contains('stale')"
	live      = "document.getElementById('live').textContent === 'Live' && !document.body.classList.contains('stale')"
	heldFor   = "document.querySelector('time[data-since]').textContent"
	age       = "document.querySelector('#age time').textContent"
)

// A page whose server is dead or does not answer says that it is out of date. Its data is
// grey, its times stop, and it is live again with the server.
func TestOutOfDate(t *testing.T) {
	for _, path := range []string{"", "lock?name=order%3A1"} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %v", path, kill), func(t *testing.T) {
				r := newRig(t, dashboard.Options{})
				r.hold(t, "order:1", someOwner)
				tab := newTab(t)
				tab.open(r.url + path)
				tab.await("document.querySelector('time[data-since]') && " + live)
				before := eval[string](tab, heldFor)
				tab.await(fmt.Sprintf("%s !== %q", heldFor, before)) // the times go on
				if kill {
					r.redis.Kill()
				} else {
					r.redis.Pause()
				}
				tab.await(outOfDate)
				stopped, old := eval[string](tab, heldFor), eval[string](tab, age)
				tab.await(fmt.Sprintf("%s !== %q", age, old)) // the age still rises
				if now := eval[string](tab, heldFor); now != stopped {
					t.Errorf("the lock is held for %s, then for %s, but the server is dead", stopped, now)
				}
				if grey := eval[string](tab, "getComputedStyle(document.querySelector('main .table')).filter"); grey != "grayscale(1)" {
					t.Errorf("the data is not grey: %s", grey)
				}
				if kill {
					r.redis.Restart() // without data
				} else {
					r.redis.Resume()
				}
				tab.await(live)
				tab.expect("ERR_")
			})
		}
	}
}

// A list that is empty does not say so for certain while the server is dead.
func TestOutOfDateEmpty(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	tab := newTab(t)
	tab.open(r.url)
	tab.await("document.querySelector('.empty').textContent === 'No locks are held.' && " + live)
	after := "getComputedStyle(document.querySelector('.empty'), '::after').content"
	if text := eval[string](tab, after); text != "none" {
		t.Errorf("the server is alive, and the list adds %s", text)
	}
	r.redis.Kill()
	tab.await(outOfDate)
	if text := eval[string](tab, after); text != `" (when the servers were last read)"` {
		t.Errorf("the server is dead, and the list adds %s", text)
	}
	tab.expect("ERR_")
}

// A page whose updates the user has stopped becomes out of date, too.
func TestOutOfDatePaused(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	r.hold(t, "order:1", someOwner)
	tab := newTab(t)
	tab.open(r.url)
	tab.await("document.querySelector('time[data-since]') && " + live)
	tab.click("#pause")
	tab.await("document.body.classList.contains('stale') && document.getElementById('live').textContent === 'Paused'")
	tab.click("#pause")
	tab.await(live)
}

// A page of another site cannot make the dashboard read the servers, but a link there
// leads to it.
func TestOtherSites(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	r.hold(t, "order:1", someOwner)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<link rel="icon" href="data:,"><a id="link" href="%[1]s">locks</a> <img src="%[1]slocks.json"> <iframe src="%[1]s"></iframe> <script>
			window.done = 0;
			const done = () => window.done++;
			for (const path of ['', 'locks.json', 'lock?name=order%%3A1', 'clients']) fetch('%[1]s' + path, { mode: 'no-cors' }).then(done, done);
			fetch('%[1]slocks.json').then(done, done);
			const source = new EventSource('%[1]sevents?page=');
			source.onerror = () => { source.close(); done(); };
			</script>`, r.url)
	}))
	defer evil.Close()
	tab := newTab(t)
	before := r.usage(t)
	for _, origin := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} { // the same site as the dashboard, and another one
		tab.open(origin + "/")
		tab.await("window.done === 6")
		if used := r.usage(t) - before; used != 0 {
			t.Errorf("%s has made the dashboard read for %d µs", origin, used)
		}
	}
	tab.click("#link")
	tab.await("document.querySelectorAll('#locks tbody tr').length === 1 && " + live)
	tab.expect("403", "CORS", "ERR_", "X-Frame-Options", "frame-ancestors", "chrome-error", "MIME type")
	tab.out = nil
}
