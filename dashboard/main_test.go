package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dashboard"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.RunTests(m)) }

// A rig is a dashboard on a server, and a browser without JavaScript.
type rig struct {
	tb     testing.TB
	redis  *redistest.Server
	client *holdfast.Client
	board  *dashboard.Dashboard
	site   *httptest.Server
	http   *http.Client
}

// newRig starts a dashboard that reads the servers often.
func newRig(tb testing.TB, o dashboard.Options) *rig {
	tb.Helper()
	return newRigOn(tb, redistest.Fresh(tb), o)
}

func newRigOn(tb testing.TB, s *redistest.Server, o dashboard.Options) *rig {
	tb.Helper()
	return newRigAs(tb, s, s.URL(), o)
}

// newRigAs starts a dashboard that connects to a server with a URL, as a user of it.
func newRigAs(tb testing.TB, s *redistest.Server, url string, o dashboard.Options) *rig {
	tb.Helper()
	r := &rig{tb: tb, redis: s}
	r.client = locktest.Open(tb, url)
	if o.Every == 0 {
		o.Every = 100 * time.Millisecond
	}
	r.board = dashboard.New(r.client, o)
	tb.Cleanup(func() { _ = r.board.Close() })
	r.serve(r.board)
	return r
}

// serve serves a handler, which contains the dashboard.
func (r *rig) serve(h http.Handler) {
	site := httptest.NewServer(h)
	r.site = site
	r.tb.Cleanup(func() {
		site.CloseClientConnections()
		site.Close()
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.http = r.site.Client()
	r.http.Jar = jar
}

// get returns the response to a request of a path.
func (r *rig) get(path string) (*http.Response, string) {
	r.tb.Helper()
	return r.do("GET", path, nil, nil)
}

func (r *rig) do(method, path string, form url.Values, headers map[string]string) (*http.Response, string) {
	r.tb.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(r.tb.Context(), method, r.site.URL+path, body)
	if err != nil {
		r.tb.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for k, v := range headers {
		if k == "Host" {
			req.Host = v
			continue
		}
		req.Header.Set(k, v)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		r.tb.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.tb.Fatal(err)
	}
	return resp, string(text)
}

// page returns a page that must be found.
func (r *rig) page(path string) string {
	r.tb.Helper()
	resp, body := r.get(path)
	if resp.StatusCode != http.StatusOK {
		r.tb.Fatalf("%s: %s\n%.300s", path, resp.Status, body)
	}
	return body
}

// eventually waits until a page contains a text.
func (r *rig) eventually(path, text string) string {
	r.tb.Helper()
	var body string
	locktest.Eventually(r.tb, time.Minute, path+" contains "+text, func() bool {
		_, body = r.get(path)
		return strings.Contains(body, text)
	})
	return body
}

// A stream is what a page receives.
type stream struct {
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

// An event is a message of a stream.
type event struct {
	Now    int64 `json:"now"`
	Read   int64 `json:"read"`
	Limit  int64 `json:"limit"`
	Tables map[string]struct {
		Order []string
		Rows  []struct {
			ID    string
			Cells []map[string]any
		}
	}
	Facts []map[string]any
}

// stream receives the changes of the list.
func (r *rig) stream() *stream {
	r.tb.Helper()
	return r.streamOf("/events?page=")
}

func (r *rig) streamOf(path string) *stream {
	r.tb.Helper()
	ctx, cancel := context.WithTimeout(r.tb.Context(), time.Minute)
	r.tb.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", r.site.URL+path, nil)
	if err != nil {
		r.tb.Fatal(err)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(func() { resp.Body.Close() })
	if typ := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || typ != "text/event-stream" {
		r.tb.Fatalf("%s: %s, %s", path, resp.Status, typ)
	}
	s := &stream{bufio.NewScanner(resp.Body), cancel}
	s.lines.Buffer(nil, 10<<20)
	return s
}

// next returns the next message. It returns false at the end.
func (s *stream) next(tb testing.TB) (e event, ok bool) {
	tb.Helper()
	for s.lines.Scan() {
		if data, is := strings.CutPrefix(s.lines.Text(), "data: "); is {
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				tb.Fatal(err)
			}
			return e, true
		}
	}
	return e, false
}

// until reads messages until one is as wanted.
func (s *stream) until(tb testing.TB, what string, good func(event) bool) event {
	tb.Helper()
	for {
		e, ok := s.next(tb)
		if !ok {
			tb.Fatalf("the stream has ended before %s: %v", what, s.lines.Err())
		}
		if good(e) {
			return e
		}
	}
}

var seenField = regexp.MustCompile(`name="seen" value="([^"]*)"`)

// seen returns the hidden field of the form that breaks a lock.
func (r *rig) seen(name string) string {
	r.tb.Helper()
	m := seenField.FindStringSubmatch(r.page("/break?name=" + url.QueryEscape(name)))
	if m == nil {
		r.tb.Fatal("there is no form")
	}
	return m[1]
}

// hold makes an owner hold a mutex with any name, which a client might not accept.
func (r *rig) hold(name, owner string) {
	r.tb.Helper()
	r.redis.Do(r.tb, "HSET", name, owner, "1")
	r.redis.Do(r.tb, "PEXPIRE", name, "600000")
}
