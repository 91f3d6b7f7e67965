// Package browser tests the dashboard in a real Chromium.
package browser

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dashboard"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(m.Run()) }

// patience is how long a test waits for something that must happen. The machine may be
// busy.
const patience = 90 * time.Second

// A rig is a dashboard on a server of its own.
type rig struct {
	redis  *redistest.Server
	client *holdfast.Client // that of the dashboard
	board  *dashboard.Dashboard
	url    string
}

func newRig(tb testing.TB, o dashboard.Options, prefix ...string) *rig {
	tb.Helper()
	r := &rig{redis: redistest.Start(tb)}
	r.client = locktest.Open(tb, r.redis.URL()+"?timeout=20s")
	if o.Every == 0 {
		o.Every = 250 * time.Millisecond
	}
	r.board = dashboard.New(r.client, o)
	var h http.Handler = r.board
	path := "/"
	if len(prefix) > 0 {
		path = prefix[0]
		mux := http.NewServeMux()
		mux.Handle(path, h)
		h = mux
	}
	site := httptest.NewServer(h)
	tb.Cleanup(func() {
		_ = r.board.Close()
		site.CloseClientConnections()
		site.Close()
	})
	r.url = site.URL + path
	return r
}

// hold makes an owner hold a mutex with any name, which a client might not accept.
func (r *rig) hold(tb testing.TB, name, owner string) {
	tb.Helper()
	r.redis.Do(tb, "HSET", name, owner, "1")
	r.redis.Do(tb, "PEXPIRE", name, "3600000")
}

const someOwner = "0b7a5a0e-6a43-8c0f-9a51-0d5f0a1c2b3d:42"

var chromium = sync.OnceValue(func() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
})

// A tab is a page in a browser of its own. The test fails if the page logs an error or
// a warning, such as a violation of the policy, or sends a request to another host.
type tab struct {
	tb    testing.TB
	ctx   context.Context
	mu    sync.Mutex
	log   []string // errors
	meant []string // texts of errors that the test expects
	out   []string // requests to other hosts
}

func newTab(tb testing.TB) *tab {
	tb.Helper()
	if chromium() == "" {
		tb.Skip("chromium is not installed: run ./scripts/deps --browser")
	}
	var output bytes.Buffer
	ctx, cancel := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(chromium()), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.UserDataDir(tb.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.CombinedOutput(&output))
	ctx, end := chromedp.NewContext(ctx)
	ctx, stop := context.WithTimeout(ctx, 5*time.Minute)
	t := &tab{tb: tb, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil {
		tb.Fatalf("start %s: %v\n%s", chromium(), err, output.String())
	}
	messages, requests := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	t.call("Network.enable", func() error { _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); return err })
	var wg sync.WaitGroup
	wg.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == "error" || m.Type == "warning" || m.IsException() {
				t.note(&t.log, m.String()+" "+m.URL)
			}
		}
	})
	wg.Go(func() {
		for e, err := range requests {
			if err != nil {
				return
			}
			if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme != "data" && u.Hostname() != "127.0.0.1" {
				t.note(&t.out, e.Request.URL)
			}
		}
	})
	tb.Cleanup(func() {
		closing, cancelClosing := context.WithTimeout(ctx, 20*time.Second)
		_ = chromedp.Cancel(closing)
		cancelClosing()
		stop()
		end()
		cancel()
		wg.Wait()
		for _, line := range t.errors() {
			tb.Errorf("the page logged: %s", line)
		}
		for _, line := range t.out {
			tb.Errorf("a request to another host: %s", line)
		}
	})
	return t
}

func (t *tab) note(list *[]string, line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*list = append(*list, line)
}

// expect says that messages that contain a text are no errors. They may also arrive later.
func (t *tab) expect(texts ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.meant = append(t.meant, texts...)
}

// errors returns the messages that the test does not expect.
func (t *tab) errors() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(t.log), func(line string) bool {
		return slices.ContainsFunc(t.meant, func(text string) bool { return strings.Contains(line, text) })
	})
}

func (t *tab) call(what string, f func() error) {
	t.tb.Helper()
	if err := f(); err != nil {
		t.tb.Fatalf("%s: %v", what, err)
	}
}

// open opens a page.
func (t *tab) open(url string) {
	t.tb.Helper()
	t.call(url, func() error { return chromedp.Do(t.ctx, chromedp.Navigate(url)) })
}

// size sets the size of the window, and the colour scheme.
func (t *tab) size(width, height int64, scheme string) {
	t.tb.Helper()
	t.call("resize", func() error { return chromedp.Do(t.ctx, chromedp.EmulateViewport(width, height)) })
	t.call("scheme", func() error {
		_, err := chromedp.Call(t.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	})
}

// eval returns the value of an expression.
func eval[T any](t *tab, expression string) T {
	t.tb.Helper()
	v, err := chromedp.Run(t.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.tb.Fatalf("%s: %v", expression, err)
	}
	return v
}

// await waits until an expression is true. The page may be replaced meanwhile.
func (t *tab) await(expression string) {
	t.tb.Helper()
	var last error
	isTrue := redistest.Poll(patience, func() bool {
		ok, err := chromedp.Run(t.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		last = err
		return err == nil && ok
	})
	if isTrue {
		return
	}
	text, _ := chromedp.Run(t.ctx, chromedp.Evaluate[string]("location.href + ' ' + document.body.innerText"))
	t.tb.Fatalf("after %v, this is not true: %s (%v)\n%.2000s", patience, expression, last, text)
}

// click clicks on an element.
func (t *tab) click(selector string) {
	t.tb.Helper()
	t.await(fmt.Sprintf("document.querySelector(%q)", selector))
	t.call("click "+selector, func() error { return chromedp.Do(t.ctx, chromedp.Click(chromedp.CSS(selector))) })
}

// key types keys.
func (t *tab) key(keys string) {
	t.tb.Helper()
	t.call("type", func() error { return chromedp.Do(t.ctx, chromedp.KeyEvent(keys)) })
}

func (t *tab) picture() []byte {
	t.tb.Helper()
	png, err := chromedp.Run(t.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.tb.Fatal(err)
	}
	return png
}
