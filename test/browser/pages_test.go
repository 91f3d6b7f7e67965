package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dashboard"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// Each page shows its data without errors, in a window and on a phone, under a prefix.
func TestPages(t *testing.T) {
	r := newRig(t, dashboard.Options{AllowBreak: true, Title: "test", Observer: new(dashboard.Observer)}, "/admin/locks/")
	ctx := t.Context()
	c := locktest.Open(t, r.redis.URL(), holdfast.Options{Label: "blue"})
	locktest.Lock(t, ctx, c.Mutex("order:1"))
	waiter := locktest.Open(t, r.redis.URL(), holdfast.Options{Label: "green"})
	locktest.Lock(t, ctx, waiter.Mutex("order:2")) // a client that only waits says later who it is
	go func() { _, _ = waiter.Mutex("order:1").Lock(ctx) }()
	if err := c.LeasedSemaphore("uploads").Set(ctx, 2); err != nil {
		t.Fatal(err)
	}
	locktest.Must[*holdfast.Lease](t)(c.LeasedSemaphore("uploads").Acquire(ctx, 1))
	locktest.Must[bool](t)(c.RateLimiter("mail").TrySetRate(ctx, holdfast.Rate{Permits: 10, Per: time.Hour}))
	tab := newTab(t)
	for _, window := range []struct {
		width, height int64
		scheme        string
	}{{1200, 800, "light"}, {1200, 800, "dark"}, {320, 640, "light"}} {
		tab.size(window.width, window.height, window.scheme)
		for path, wants := range map[string][]string{
			"":                     {"order:1", "uploads", "mutex", "test"},
			"lock?name=order%3A1":  {"order:1", "blue", "green", "exclusive", "Queue", "Last holders"},
			"clients":              {"blue", "green", "holdfast"},
			"limits":               {"uploads", "50 %", "mail", "1 h 00 m"},
			"plots":                {"Hand-offs per second", "Locks held", "Longest wait", "Leases lost"},
			"servers":              {r.redis.Addr(), "noeviction", "master"},
			"break?name=order%3A1": {"order:1", "Break the lock"},
		} {
			tab.open(r.url + path)
			for _, want := range wants {
				tab.await(fmt.Sprintf("document.body.innerText.includes(%q)", want))
			}
			if path != "break?name=order%3A1" {
				tab.await("document.getElementById('live').textContent === 'Live'")
			}
			if wide := eval[int64](tab, "document.documentElement.scrollWidth"); wide > window.width {
				t.Errorf("%q is %d px wide in a window of %d px", path, wide, window.width)
			}
			dark := eval[string](tab, "getComputedStyle(document.documentElement).backgroundColor") != "rgb(247, 248, 249)"
			if dark != (window.scheme == "dark") {
				t.Errorf("%q does not follow the colour scheme %s", path, window.scheme)
			}
		}
	}
	tab.open(r.url + "lock?name=order%3A1")
	tab.await("document.querySelector('#timeline rect.open')")
	tab.open(r.url + "plots")
	tab.await("document.querySelector('#plot-held path.line')")
	tab.open(r.url + "servers")
	tab.click("form button")
	tab.await("document.body.innerText.includes('Checked at') && document.querySelector('#findings tbody tr')")
	tab.await("location.pathname === '/admin/locks/servers'")
}

// The list follows the server without a reload.
func TestLive(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	c := locktest.Open(t, r.redis.URL())
	tab := newTab(t)
	tab.open(r.url)
	tab.await("document.getElementById('live').textContent === 'Live'")
	tab.await("document.querySelector('.empty').textContent === 'No locks are held.'")
	eval[bool](tab, "window.same = true")
	l := locktest.Lock(t, t.Context(), c.Mutex("order:1"))
	tab.await("document.querySelector('#locks tbody tr td a').textContent === 'order:1'")
	tab.await("/^[12][0-9] s$/.test(document.querySelector('#locks time[data-until]').textContent)")
	before := eval[string](tab, "document.querySelector('#locks time[data-since]').textContent")
	tab.await(fmt.Sprintf("document.querySelector('#locks time[data-since]').textContent !== %q", before))
	locktest.Lock(t, t.Context(), c.Mutex("order:0"))
	tab.await("[...document.querySelectorAll('#locks tbody tr')].map((r) => r.dataset.id).join() === 'order%3A0,order%3A1'")
	locktest.Release(t, l)
	tab.await("document.querySelectorAll('#locks tbody tr').length === 1")

	// The search works while the user types.
	tab.click("#q")
	tab.key("nothing")
	tab.await("document.querySelectorAll('#locks tbody tr').length === 0 && document.querySelector('.empty').textContent === 'No lock matches.'")
	tab.await("location.search === '?q=nothing'")
	eval[bool](tab, "document.getElementById('q').value = 'R:0'; document.getElementById('q').dispatchEvent(new Event('input', {bubbles: true}))")
	tab.await("document.querySelectorAll('#locks tbody tr').length === 1")

	// Updates can be stopped.
	tab.click("#pause")
	tab.await("document.getElementById('live').textContent === 'Paused'")
	// Another stream of the page shows when the dashboard has sent an update. When it has sent the
	// next one, the first has reached all streams.
	eval[bool](tab, "(() => { window.told = ''; window.other = new EventSource('events?page='); window.other.onmessage = (e) => { window.told += e.data }; return true })()")
	for _, name := range []string{"00", "000"} {
		locktest.Lock(t, t.Context(), c.Mutex("order:"+name))
		tab.await(fmt.Sprintf("window.told.includes('\"order%%3A%s\"')", name))
	}
	eval[bool](tab, "window.other.close() || true")
	if n := eval[int](tab, "document.querySelectorAll('#locks tbody tr').length"); n != 1 {
		t.Errorf("%d rows while updates are stopped", n)
	}
	tab.click("#pause")
	tab.await("document.querySelectorAll('#locks tbody tr').length === 3")
	if !eval[bool](tab, "window.same === true") {
		t.Error("the page was loaded again")
	}
}

// A browser connects again after the dashboard was away.
func TestReconnect(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	c := locktest.Open(t, r.redis.URL())
	tab := newTab(t)
	var away atomic.Bool
	var refused atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if away.Load() {
			http.Error(w, "away", http.StatusBadGateway)
			refused.Add(1)
			return
		}
		r.board.ServeHTTP(w, q)
	}))
	defer site.Close()
	defer site.CloseClientConnections()
	tab.open(site.URL + "/")
	tab.await("document.getElementById('live').textContent === 'Live'")
	away.Store(true)
	site.CloseClientConnections()
	tab.await("document.getElementById('live').textContent === 'Not connected'")
	locktest.Eventually(t, patience, "the browser has tried to connect", func() bool { return refused.Load() > 0 })
	away.Store(false)
	locktest.Lock(t, t.Context(), c.Mutex("order:1"))
	tab.await("document.querySelectorAll('#locks tbody tr').length === 1")
	tab.open("about:blank")
	tab.expect("502")
	tab.expect("ERR_")
}

// Users can break locks if the dashboard allows it, and only those that they have seen.
func TestBreak(t *testing.T) {
	r := newRig(t, dashboard.Options{AllowBreak: true, Audit: func(dashboard.Action) {}}, "/x/")
	free := func() bool { return r.redis.Int(t, "EXISTS", "order:1") == 0 }
	readonly := newRig(t, dashboard.Options{})
	tab := newTab(t)
	r.hold(t, "order:1", someOwner)
	tab.open(r.url + "lock?name=order%3A1")
	tab.click("a.danger")
	tab.await("document.querySelector('#holders tbody').innerText.includes(" + fmt.Sprintf("%q", someOwner) + ")")
	tab.click("button.danger")
	tab.await("document.body.innerText.includes('The lock is broken')")
	if !free() {
		t.Error("the lock is not broken")
	}

	r.hold(t, "order:1", someOwner)
	tab.open(r.url + "break?name=order%3A1")
	tab.await("document.querySelector('button.danger')")
	r.redis.Do(t, "DEL", "order:1")
	r.hold(t, "order:1", strings.Replace(someOwner, ":42", ":43", 1))
	tab.click("button.danger")
	tab.await("document.body.innerText.includes('Nothing was changed')")
	if free() {
		t.Error("the lock of another owner is broken")
	}
	tab.expect("409")

	// Another site cannot use the browser of the user. Its form carries what an attacker
	// may have got from the dashboard in another browser, and the user has the cookie.
	tab.open(r.url + "break?name=order%3A1")
	seen := eval[string](tab, "document.querySelector('[name=seen]').value")
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method="post" action="%sbreak"><input name="seen" value="%s"><button>x</button></form>`, r.url, seen)
	}))
	defer evil.Close()
	u, err := url.Parse(evil.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, origin := range []string{evil.URL, "http://localhost:" + u.Port()} { // the same site as the dashboard, and another one
		tab.open(origin + "/")
		tab.click("button")
		tab.await("document.body.innerText.includes('comes from another site')")
		if free() {
			t.Errorf("%s has broken the lock", origin)
		}
	}
	tab.expect("403")
	tab.expect("404") // the icon of that site
	tab.out = nil

	readonly.hold(t, "order:1", someOwner)
	tab.open(readonly.url + "lock?name=order%3A1")
	tab.await("document.body.innerText.includes('exclusive')")
	if eval[bool](tab, "!!document.querySelector('.danger, form[method=post]')") {
		t.Error("a dashboard that cannot break locks has a form")
	}
	tab.open(readonly.url + "break?name=order%3A1")
	tab.await("document.body.innerText.includes('cannot break locks')")
	if status := eval[int](tab, "performance.getEntriesByType('navigation')[0].responseStatus"); status != http.StatusForbidden {
		t.Errorf("the status is %d", status)
	}
	tab.expect("403")
}

// Names cannot run scripts, and look like what they are.
func TestHostile(t *testing.T) {
	r := newRig(t, dashboard.Options{AllowBreak: true})
	names := []string{
		`<script>window.bad = 1</script>`, `<img src=x onerror="window.bad = 1">`, `"><svg onload=window.bad=1>`, `javascript:window.bad=1`, `' onfocus='window.bad=1' autofocus='`,
		"\u202egnp.exe", "a\x1b[31mb\nc", "\xff\xfe", strings.Repeat("0123456789abcdef", 64), "</title></script><script>window.bad=1</script>", "${window.bad=1}", "&lt;b&gt;", "שלום",
	}
	tab := newTab(t)
	tab.open(r.url) // so that the rows are made by the script
	tab.await("document.getElementById('live').textContent === 'Live'")
	for _, name := range names {
		r.hold(t, name, "<b>x</b>:1")
		r.redis.Do(t, "HSET", name, "leader", name)
	}
	good := func() {
		t.Helper()
		if eval[bool](tab, "'bad' in window || !!document.querySelector('main img, main script, main svg[onload], td b')") {
			t.Errorf("a name has become part of the page: %s", eval[string](tab, "document.querySelector('main').innerHTML"))
		}
	}
	rows := fmt.Sprintf("document.querySelectorAll('#locks tbody tr').length === %d", len(names))
	tab.await(rows)
	good()
	tab.await(`document.querySelector('#locks').innerText.includes('\\u202egnp.exe')`)
	tab.await(`document.querySelector('#locks').innerText.includes('a\\x1b[31mb\\nc')`)
	tab.open(r.url) // now they are made by the server
	tab.await(rows)
	good()
	links := eval[[]string](tab, "[...document.querySelectorAll('td.name a')].map((a) => a.href)")
	if len(links) != len(names) {
		t.Fatalf("%d links", len(links))
	}
	for _, link := range links {
		tab.open(link)
		tab.await("document.getElementById('live').textContent === 'Live' && document.querySelectorAll('#holders tbody tr').length === 1")
		good()
	}
	tab.open(r.url + "lock?name=" + url.QueryEscape(names[0]))
	tab.await("document.querySelector('#timeline rect')")
	good()
	tab.open(r.url + "break?name=%FF%FE")
	tab.click("button.danger")
	tab.await("document.body.innerText.includes('The lock is broken')")
	if r.redis.Int(t, "EXISTS", "\xff\xfe") != 0 {
		t.Error("the lock with the name that is not UTF-8 is still there")
	}
	tab.open(r.url + "?q=" + url.QueryEscape(`"><script>window.bad=1</script>`))
	tab.await("document.querySelector('.empty').textContent === 'No lock matches.'")
	good()

	// The policy refuses scripts that are not of the dashboard, and HTML from text.
	if eval[bool](tab, "(() => { const s = document.createElement('script'); try { s.textContent = 'window.bad = 2'; document.body.append(s); } catch { } return 'bad' in window })()") {
		t.Error("an inline script has run")
	}
	if eval[bool](tab, "(() => { try { document.querySelector('main').innerHTML = '<b>x</b>'; return true } catch { return false } })()") {
		t.Error("text has become HTML")
	}
	tab.expect("Content Security Policy", "TrustedHTML", "TrustedScript", "Trusted Type")
}

// All of the list can be used with the keyboard.
func TestKeyboard(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	for i := range 3 {
		r.hold(t, fmt.Sprintf("order:%d", i), someOwner)
	}
	tab := newTab(t)
	tab.open(r.url)
	tab.await("document.querySelectorAll('#locks tbody tr').length === 3 && document.getElementById('live').textContent === 'Live'")
	var order []string
	for range 30 {
		tab.key("\t")
		at := eval[string](tab, "(() => { const e = document.activeElement; return e.id || e.textContent.trim() })()")
		if !eval[bool](tab, "document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle !== 'none'") {
			t.Errorf("the focus on %q is not visible", at)
		}
		order = append(order, at)
		if at == "order:2" {
			break
		}
	}
	last := -1
	for _, want := range []string{"Skip to content", "Holdfast", "Locks", "Servers", "pause", "q", "kind", "Name", "Held for", "Waiting", "order:0", "order:1", "order:2"} {
		i := -1
		for j, at := range order {
			if at == want {
				i = j
			}
		}
		if i <= last {
			t.Errorf("%q is not reached in its turn: %q", want, order)
		}
		last = max(last, i)
	}

	// The focus stays while the list changes, and Enter follows the link.
	r.hold(t, "order:00", someOwner)
	tab.await("document.querySelectorAll('#locks tbody tr').length === 4")
	if at := eval[string](tab, "document.activeElement.textContent"); at != "order:2" {
		t.Errorf("the focus has moved to %q", at)
	}
	tab.key("\r")
	tab.await("location.search === '?name=order%3A2' && document.querySelector('h1').textContent === 'order:2'")
	tab.open(r.url)
	tab.await("document.querySelectorAll('#locks tbody tr').length === 4")
	eval[bool](tab, "document.querySelector('th a.sort').focus() || true")
	tab.key("\r")
	tab.await("document.querySelector('th[aria-sort=descending]') && document.querySelector('#locks tbody tr').dataset.id === 'order%3A2'")
	for _, what := range []string{"[...document.querySelectorAll('input:not([type=hidden]), select')].every((e) => e.labels.length > 0 || e.ariaLabel)", "[...document.querySelectorAll('table')].every((e) => e.caption.textContent)", "[...document.querySelectorAll('th')].every((e) => e.scope === 'col')", "document.documentElement.lang === 'en'", "document.querySelectorAll('main, h1').length === 2"} {
		if !eval[bool](tab, what) {
			t.Errorf("not true: %s", what)
		}
	}
}
