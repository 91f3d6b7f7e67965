package dashboard_test

import (
	"context"
	"encoding/json"
	"html"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dashboard"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
)

const someOwner = "0b7a5a0e-6a43-8c0f-9a51-0d5f0a1c2b3d:42"

// Every response has the headers that protect it.
func TestHeaders(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	paths := dashboard.Routes()
	if len(paths) < 10 {
		t.Errorf("routes %q", paths)
	}
	for _, path := range append(paths, "nonsense") {
		if path == "events" {
			path = "events?page=nonsense"
		}
		resp, _ := r.get("/" + path)
		policy := resp.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy+";", part+";") {
				t.Errorf("%s: the policy has no %s: %s", path, part, policy)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %s", path, policy)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
	body := r.page("/")
	if regexp.MustCompile(`(?i) (style|on\w+)=|<style|<script>|https?://`).MatchString(body) {
		t.Errorf("the page has inline code, or another origin:\n%s", body)
	}
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		if resp, _ := r.do(method, "/", nil, nil); resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %s", method, resp.Status)
		}
	}
}

// A dashboard works under any prefix: all links of all pages lead to pages of it.
func TestPrefix(t *testing.T) {
	r := newRig(t, dashboard.Options{AllowBreak: true})
	r.hold("a b/c:1", someOwner)
	mux := http.NewServeMux()
	mux.Handle("/stripped/", http.StripPrefix("/stripped", r.board))
	mux.Handle("/admin/locks/", r.board)
	mux.Handle("/bare", http.StripPrefix("/bare", r.board))
	mux.Handle("/bare/", http.StripPrefix("/bare", r.board))
	r.serve(mux)
	links := regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	for _, prefix := range []string{"/stripped/", "/admin/locks/", "/bare/"} {
		r.eventually(prefix, "a b/c:1")
		seen := make(map[string]bool)
		todo := []string{prefix}
		for len(todo) > 0 {
			path := todo[0]
			todo = todo[1:]
			base, err := url.Parse(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range links.FindAllStringSubmatch(r.page(path), -1) {
				link, err := base.Parse(html.UnescapeString(m[1]))
				if err != nil {
					t.Fatal(err)
				}
				link.Fragment = ""
				if !strings.HasPrefix(link.Path, prefix) {
					t.Errorf("%s links to %s", path, link)
				} else if to := link.String(); !seen[to] && to != prefix+"break" { // which needs a name
					seen[to] = true
					todo = append(todo, to)
				}
			}
		}
		if !seen[prefix+"lock?name=a+b%2Fc%3A1"] || !seen[prefix+"dashboard.js"] || !seen[prefix+"servers"] {
			t.Errorf("found %v", seen)
		}
	}
	if resp, body := r.get("/bare?q=x"); resp.Request.URL.String() != r.site.URL+"/bare/?q=x" || !strings.Contains(body, `value="x"`) {
		t.Errorf("redirected to %s", resp.Request.URL)
	}
}

// hostile are names that try to break out of a page.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`, `{{.}}`, `</title><script>alert(1)</script>`,
	"\u202egnp.exe", "a\x1b[2Jb", "\xff\xfe<b>", "a&amp;b", "%3Cscript%3E", "../../etc", "a\nb: c\n\ndata: x", strings.Repeat("<long>", 170), "\u2028\u2029", " a  b ", "a\u009bb\x7fc",
}

// controls matches characters that control a terminal or the direction of text.
var controls = regexp.MustCompile(`[\x00-\x09\x0b-\x1f\x7f-\x{9f}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}]`)

// Names, owners and leaders cannot become part of a page. Each has a link that leads to
// its own page.
func TestEscaping(t *testing.T) {
	r := newRig(t, dashboard.Options{AllowBreak: true})
	for _, name := range hostile {
		r.hold(name, "<b>"+name[:min(len(name), 100)]+":1")
		r.redis.Do(t, "HSET", name, "leader", name)
	}
	bad := regexp.MustCompile(`(?i)<script>|<img src=x|<long>|onmouseover='|href="javascript|` + controls.String())
	search := regexp.MustCompile(`<input id="q"[^>]*>`) // has the text that the user has typed
	check := func(path string) string {
		t.Helper()
		resp, body := r.get(path)
		if controls.MatchString(search.FindString(body)) {
			t.Errorf("%.80s: %q", path, search.FindString(body))
		}
		body = search.ReplaceAllString(body, "")
		if m := bad.FindString(body); m != "" {
			i := strings.Index(body, m)
			t.Errorf("%.80s: %s: the page contains %q: …%q…", path, resp.Status, m, body[max(i-60, 0):min(i+80, len(body))])
		}
		return body
	}
	r.eventually("/", `\u202egnp.exe`)
	list := check("/")
	for _, name := range hostile {
		link := "lock?name=" + url.QueryEscape(name)
		if !strings.Contains(strings.ReplaceAll(list, "&#43;", "+"), `href="`+link+`"`) {
			t.Errorf("%.40q has no link %.80s", name, link)
			continue
		}
		want := html.EscapeString(dashboard.Visible(name, 4096))
		if body := check("/" + link); !strings.Contains(strings.ReplaceAll(body, "&#43;", "+"), ">"+want+"</h1>") {
			t.Errorf("%.40q: its page has no heading %.80s", name, want)
		}
		check("/break?name=" + url.QueryEscape(name))
		check("/?q=" + url.QueryEscape(name))
		check("/clients?id=" + url.QueryEscape(name))
	}
	for _, path := range []string{"/?sort=\u202e&x=\u202e", "/clients", "/limits", "/plots", "/nonsense", "/events?page=%3Cscript%3E"} {
		check(path)
	}
	text := r.page("/locks.json")
	if m := controls.FindString(text); m != "" {
		t.Errorf("the JSON contains %q", m)
	}
	var doc struct{ Locks []struct{ Name string } }
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	for _, name := range hostile {
		if !slices.Contains(doc.Locks, struct{ Name string }{strings.ToValidUTF8(name, "\ufffd\ufffd")}) {
			t.Errorf("%.40q is not in the JSON", name)
		}
	}
	s := r.stream()
	e := s.until(t, "the first message", func(event) bool { return true })
	if m := controls.FindString(s.lines.Text()); m != "" {
		t.Errorf("the stream contains %q", m)
	}
	if n := len(e.Tables["locks"].Order); n != len(hostile) {
		t.Errorf("%d locks in the stream", n)
	}
}

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"order:42":         "order:42",
		"a b":              "a b",
		" a  b ":           `\x20a\x20\x20b\x20`,
		"a\\b":             `a\\b`,
		"\x00\n\x7f":       `\x00\n\x7f`,
		"\u202egnp":        `\u202egnp`,
		"\u2066\u200f":     `\u2066\u200f`,
		"e\u0301":          `e\u0301`,
		"\xffé":            `\xffé`,
		"日本":               "日本",
		"\u3164":           `\u3164`,
		"0123456789abcdef": "012345678…",
	} {
		if got := dashboard.Visible(text, 10); text == "0123456789abcdef" && got != want {
			t.Errorf("%q: %s", text, got)
		}
		if got := dashboard.Visible(text, 100); text != "0123456789abcdef" && got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// A page receives what has changed, and only that.
func TestStream(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	l := locktest.Lock(t, t.Context(), r.client.Mutex("first"))
	s := r.stream()
	has := func(name string) func(event) bool {
		return func(e event) bool { return slices.Contains(e.Tables["locks"].Order, name) }
	}
	s.until(t, "first is listed", has("first"))
	locktest.Lock(t, t.Context(), r.client.Mutex("second"))
	e := s.until(t, "second is listed", has("second"))
	if rows := e.Tables["locks"].Rows; len(rows) != 1 || rows[0].ID != "second" || len(e.Tables["locks"].Order) != 2 {
		t.Errorf("more than the change was sent: %+v", e)
	}
	locktest.Release(t, l)
	e = s.until(t, "first is not listed", func(e event) bool { return len(e.Tables) > 0 && !has("first")(e) })
	if t1 := e.Tables["locks"]; !slices.Equal(t1.Order, []string{"second"}) {
		t.Errorf("more than the change was sent: %+v", e)
	}
	_ = r.board.Close()
	if _, ok := s.next(t); ok {
		t.Error("Close has not ended the stream")
	}
}

// A view is searched, filtered, sorted and divided at the server.
func TestList(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	ctx := t.Context()
	for _, n := range []string{"c", "a", "b"} {
		locktest.Lock(t, ctx, r.client.Mutex("mutex:"+n), holdfast.LeaseTime(time.Hour))
	}
	locktest.Lock(t, ctx, r.client.FencedMutex("fenced:x"), holdfast.LeaseTime(30*time.Minute))
	other := locktest.Open(t, r.redis.URL())
	go func() { _, _ = other.Mutex("mutex:b").Lock(ctx) }()
	r.eventually("/?sort=-waiting", `class="num strong"`)
	row := regexp.MustCompile(`<tr data-id="([^"]*)"`)
	names := func(path string) (list []string) {
		for _, m := range row.FindAllStringSubmatch(r.page(path), -1) {
			name, _ := url.QueryUnescape(m[1])
			list = append(list, name)
		}
		return list
	}
	for path, want := range map[string][]string{
		"/":                         {"fenced:x", "mutex:a", "mutex:b", "mutex:c"},
		"/?sort=-name":              {"mutex:c", "mutex:b", "mutex:a", "fenced:x"},
		"/?q=MUTEX&sort=-name":      {"mutex:c", "mutex:b", "mutex:a"},
		"/?kind=fenced+mutex":       {"fenced:x"},
		"/?kind=fair+mutex":         nil,
		"/?q=" + r.client.ID()[:20]: {"fenced:x", "mutex:a", "mutex:b", "mutex:c"},
		"/?q=nothing":               nil,
		"/?sort=nonsense&n=99&q=:x": {"fenced:x"},
	} {
		if got := names(path); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := names("/?sort=-waiting"); got[0] != "mutex:b" {
		t.Errorf("sorted by waiters: %q", got)
	}
	if got := names("/?sort=ttl"); got[0] != "fenced:x" {
		t.Errorf("sorted by the remaining time: %q", got)
	}
	r.eventually("/lock?name=mutex%3Ab", other.ID())
}

// unreachable is a driver whose server answers no call.
type unreachable struct{ driver.Driver }

func (unreachable) Do(context.Context, driver.Call) (driver.Reply, error) {
	return driver.Reply{}, holdfast.ErrUnavailable
}

func (unreachable) DoMany(_ context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	for i := range results {
		results[i].Err = holdfast.ErrUnavailable
	}
	return results
}

// The scanner runs only while a page is viewed.
func TestViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := holdfast.New(unreachable{fake.New()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		board := dashboard.New(client, dashboard.Options{})
		defer board.Close()
		scans := 0
		during := func(d time.Duration) int { // the scans during that time
			time.Sleep(d)
			synctest.Wait()
			before := scans
			scans = board.Scans()
			return scans - before
		}
		open := func(ctx context.Context, path string) {
			w := httptest.NewRecorder()
			if board.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "http://localhost/"+path, nil)); w.Code != http.StatusOK {
				t.Errorf("/%s: %d %s", path, w.Code, w.Body)
			}
		}
		still := func() {
			t.Helper()
			during(dashboard.LingerTime + time.Second)
			if n := during(time.Minute); n != 0 {
				t.Errorf("%d scans while nobody views a page", n)
			}
		}
		still()
		for _, path := range []string{"", "clients"} {
			open(t.Context(), path)
			if n := during(time.Second); n == 0 {
				t.Errorf("the scanner has not run for /%s", path)
			}
			still()
		}
		ctx, cancel := context.WithCancel(t.Context())
		go open(ctx, "events?page=")
		if n := during(time.Minute); n < 10 {
			t.Errorf("%d scans for a stream of a minute", n)
		}
		cancel()
		still()
	})
}

// The scanner leaves the server alone for most of the time.
func TestPace(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	for i := range 300 {
		r.hold("order:"+strconv.Itoa(i), someOwner)
	}
	r.stream()
	// One request that is slow on a busy machine lengthens a round more than the next pauses.
	locktest.Eventually(t, 60*time.Second, "rounds with long pauses", func() bool {
		busy, every := r.board.Pace()
		return r.board.Scans() > 2 && busy >= time.Millisecond && every > 100*time.Millisecond && every >= 5*busy // an average over rounds
	})
}

// The page of a lock is live even if a round of the scanner takes long.
func TestRefresh(t *testing.T) {
	r := newRig(t, dashboard.Options{Every: time.Second})
	for i := range 5000 {
		r.hold("order:"+strconv.Itoa(i), someOwner)
	}
	l := locktest.Lock(t, t.Context(), r.client.Mutex("watched"))
	s := r.streamOf("/events?page=lock&name=watched")
	holders := func(n int) func(event) bool {
		return func(e event) bool { t, ok := e.Tables["holders"]; return ok && len(t.Order) == n }
	}
	s.until(t, "it is held", holders(1))
	for held := 5000; ; { // the faster the machine, the more locks it takes
		n := r.board.Scans()
		locktest.Eventually(t, 2*time.Minute, "two rounds", func() bool { return r.board.Scans() >= n+2 })
		_, every := r.board.Pace()
		if every >= 2*time.Second {
			break
		}
		if held == 100_000 {
			t.Fatalf("with %d locks, a round takes only %v", held, every)
		}
		for range 5000 {
			r.hold("order:"+strconv.Itoa(held), someOwner)
			held++
		}
	}
	start := time.Now()
	locktest.Release(t, l)
	s.until(t, "it is free", holders(0))
	_, every := r.board.Pace()
	t.Logf("seen after %v; a round every %v", time.Since(start), every)
	locktest.Lock(t, t.Context(), r.client.Mutex("watched"))
	s.until(t, "it is held again", holders(1))
}

// The list is there for scripts.
func TestJSON(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	r.hold("\xff", someOwner)
	r.hold("b", someOwner)
	resp, body := r.get("/locks.json")
	var doc struct {
		At       time.Time
		Complete bool
		Locks    []struct {
			Name, NameBase64, Kind string
			Holders                []struct {
				Owner, Mode string
				ExpiresInMs int64
				Client      struct{ ID string }
			}
			Queued *int
		}
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err, body)
	}
	if resp.Header.Get("Content-Type") != "application/json" || !doc.Complete || time.Since(doc.At) > time.Minute || len(doc.Locks) != 2 {
		t.Fatalf("%s", body)
	}
	l, odd := doc.Locks[0], doc.Locks[1]
	if l.Name != "b" || l.Kind != "mutex" || l.Queued == nil || l.Holders[0].Owner != someOwner || l.Holders[0].ExpiresInMs < 500_000 || l.Holders[0].Client.ID != strings.TrimSuffix(someOwner, ":42") {
		t.Errorf("%s", body)
	}
	if odd.NameBase64 != "/w==" {
		t.Errorf("%s", body)
	}
}

// Semaphores and rate limiters are shown with their use.
func TestLimits(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	ctx := t.Context()
	s := r.client.LeasedSemaphore("uploads")
	if err := s.Set(ctx, 4); err != nil {
		t.Fatal(err)
	}
	locktest.Must[*holdfast.Lease](t)(s.Acquire(ctx, 3))
	l := r.client.RateLimiter("mail")
	locktest.Must[bool](t)(l.TrySetRate(ctx, holdfast.Rate{Permits: 20, Per: time.Hour}))
	locktest.Must[bool](t)(l.AllowN(ctx, 5))
	body := r.eventually("/limits", ">25 %<")
	if !strings.Contains(body, ">75 %<") || !strings.Contains(body, "1 h 00 m") {
		t.Errorf("%s", body)
	}
}

// The page of the servers shows facts, and findings on demand.
func TestServers(t *testing.T) {
	r := newRigOn(t, redistest.Start(t), dashboard.Options{})
	if body := r.page("/servers"); !strings.Contains(body, r.redis.Addr()) || !strings.Contains(body, "noeviction") || strings.Contains(body, "persistence") {
		t.Errorf("%s", body)
	}
	resp, body := r.do("POST", "/servers", url.Values{}, nil)
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, "persistence") || !strings.Contains(body, "Checked at") {
		t.Errorf("%s %s", resp.Status, body)
	}
	if resp, _ := r.do("POST", "/servers", url.Values{}, map[string]string{"Sec-Fetch-Site": "cross-site"}); resp.StatusCode != http.StatusForbidden {
		t.Errorf("from another site: %s", resp.Status)
	}
}

// With the documented rights of an operator for one prefix, every page works, and locks
// cannot be broken.
func TestRights(t *testing.T) {
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	s := redistest.Start(t)
	rules := regexp.MustCompile("(?m)^ACL SETUSER operator .*~app:.*$|^ACL SETUSER operator [^~&\n]*$").FindAllString(string(text), -1)
	if len(rules) != 4 {
		t.Fatalf("docs/operations.md has %q", rules)
	}
	for _, rule := range rules {
		s.Do(t, strings.Fields(rule)...)
	}
	c := locktest.Open(t, s.URL(), holdfast.Options{Label: "till 7"})
	ctx := t.Context()
	locktest.Lock(t, ctx, c.Mutex("app:order"))
	locktest.Lock(t, ctx, c.Mutex("secret"))
	permits := c.LeasedSemaphore("app:slots")
	if err := permits.Set(ctx, 4); err != nil {
		t.Fatal(err)
	}
	locktest.Must[*holdfast.Lease](t)(permits.Acquire(ctx, 3))
	limiter := c.RateLimiter("app:mail")
	locktest.Must[bool](t)(limiter.TrySetRate(ctx, holdfast.Rate{Permits: 20, Per: time.Hour}))
	locktest.Must[bool](t)(limiter.AllowN(ctx, 5))
	r := newRigAs(t, s, strings.Replace(s.URL(), "redis://", "redis://operator:secret@", 1), dashboard.Options{Match: "app:*", AllowBreak: true})
	if body := r.eventually("/", "till 7"); !strings.Contains(body, "app:order") || strings.Contains(body, "secret") {
		t.Errorf("%s", body)
	}
	r.eventually("/clients", "till 7")
	r.eventually("/limits", ">75 %<")
	r.eventually("/limits", ">25 %<")
	r.eventually("/lock?name=app%3Aorder", "till 7")
	for _, path := range []string{"/deadlocks", "/plots", "/servers"} {
		if body := r.page(path); strings.Contains(body, "NOPERM") || strings.Contains(body, "could not be read") {
			t.Errorf("%s: %s", path, body)
		}
	}
	if _, body := r.post(r.seen("app:order"), nil); strings.Contains(body, "is broken") || s.Int(t, "EXISTS", "app:order") != 1 {
		t.Errorf("broken without the right to: %s", body)
	}
}

// A server that does not answer is reported, and its password is not.
func TestUnavailable(t *testing.T) {
	r := newRigOn(t, redistest.Start(t), dashboard.Options{})
	locktest.Lock(t, t.Context(), r.client.Mutex("kept"))
	r.eventually("/", "kept")
	r.redis.Kill()
	if body := r.eventually("/", "could not be read"); !strings.Contains(body, "kept") {
		t.Error("the last list is not shown")
	}
}

// Losses of the program are plotted and listed.
func TestObserver(t *testing.T) {
	seen := new(dashboard.Observer)
	r := newRig(t, dashboard.Options{Observer: seen})
	c := locktest.Open(t, r.redis.URL(), holdfast.Options{Observers: []observe.Observer{seen}, WatchdogTimeout: 2 * time.Second, RenewEvery: 100 * time.Millisecond})
	locktest.Lock(t, t.Context(), c.Mutex("gone<b>"))
	r.redis.Do(t, "DEL", "gone<b>")
	body := r.eventually("/plots", "gone&lt;b&gt;")
	if !strings.Contains(body, "Leases lost") || strings.Contains(body, "No lease was lost") && !strings.Contains(body, "hidden>No lease was lost") {
		t.Errorf("%s", body)
	}
}

// The number of browsers is bounded.
func TestManyStreams(t *testing.T) {
	r := newRig(t, dashboard.Options{Every: time.Second})
	for range dashboard.MaxStreams {
		r.stream()
	}
	if resp, _ := r.get("/events?page="); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more: %s", resp.Status)
	}
}

// A slowWriter is the connection of a browser that reads nothing.
type slowWriter struct {
	header   http.Header
	deadline time.Time
}

func (w *slowWriter) Header() http.Header                 { return w.header }
func (w *slowWriter) WriteHeader(int)                     {}
func (w *slowWriter) Flush()                              {}
func (w *slowWriter) SetWriteDeadline(at time.Time) error { w.deadline = at; return nil }
func (w *slowWriter) Write([]byte) (int, error) {
	if w.deadline.IsZero() {
		select {} // for ever
	}
	return 0, os.ErrDeadlineExceeded
}

// A browser that does not read is disconnected.
func TestSlowBrowser(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		req := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/events?page=", nil)
		r.board.ServeHTTP(&slowWriter{header: make(http.Header)}, req)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("it is still connected")
	}
}

func ExampleNew() {
	client, err := holdfast.Open(context.Background(), redistest.ExampleURL(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	mux := http.NewServeMux()
	requireLogin := func(h http.Handler) http.Handler { return h } // use that of your program
	d := dashboard.New(client, dashboard.Options{Title: "production", Hosts: []string{"admin.example.com"}})
	defer d.Close()
	mux.Handle("/admin/locks/", requireLogin(d))
}
