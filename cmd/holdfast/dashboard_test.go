package main_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// dashboardURL waits for the address that a command prints.
func dashboardURL(t *testing.T, p *process) string {
	t.Helper()
	return p.awaitOutput(t, `http://127\.0\.0\.1:\d+/`)
}

func dashboardGet(t *testing.T, url, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestDashboard checks that the pages are served until Ctrl-C, to browsers on this machine
// only, and without passwords.
func TestDashboard(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "geheim")
	client, err := holdfast.Open(t.Context(), "redis://:geheim@"+s.Addr(), &holdfast.Options{Anonymous: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	lsHold(t, client.Mutex("orders"))
	p := start(t, []string{"HOLDFAST_URL=redis://:geheim@" + s.Addr()}, "dashboard", "--listen", "127.0.0.1:0", "--allow-break")
	at := dashboardURL(t, p)
	status, body := dashboardGet(t, at, "")
	if status != http.StatusOK || !strings.Contains(body, "orders") || !strings.Contains(body, s.Addr()) || strings.Contains(body, "geheim") {
		t.Errorf("%d %s", status, body)
	}
	if _, body := dashboardGet(t, at+"lock?name=orders", ""); !strings.Contains(body, "Break this lock") {
		t.Error("--allow-break has no effect")
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := dashboardGet(t, at, "evil.example:"+u.Port()); status != http.StatusMisdirectedRequest {
		t.Errorf("for another host: %d", status)
	}
	if status, _ := dashboardGet(t, at, "localhost:"+u.Port()); status != http.StatusOK {
		t.Errorf("for localhost: %d", status)
	}
	p.signal(t, syscall.SIGINT)
	r := p.wait(t)
	r.want(t, 0, `^http://127`, `Ctrl-C ends it`)
	if strings.Contains(r.err+r.out, "geheim") {
		t.Errorf("the output contains the password: %s", r.err)
	}
}

func TestDashboardListen(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"0.0.0.0:0", ":8787", "192.0.2.1:8787", "[::]:0", "example.com:80"} {
		execute(t, "dashboard", "--listen", addr).want(t, 2, "", `has no login.*--insecure-listen`)
	}
	execute(t, "dashboard", "--listen", "nonsense").want(t, 2, "", `must be a host and a port`)
	s := redistest.Start(t)
	p := start(t, nil, "dashboard", "--url", s.URL(), "--listen", "0.0.0.0:0", "--insecure-listen")
	p.awaitOutput(t, `http://`)
	p.signal(t, syscall.SIGTERM)
	p.wait(t).want(t, 0, "^http://localhost:", ".")
	execute(t, "dashboard", "--url", "redis://127.0.0.1:1", "--listen", "127.0.0.1:0").want(t, 122, "", "refused")
}

// TestDashboardHosts checks that web sites cannot use the dashboard under a name of theirs,
// on any address, and that pages that change locks on the network need names.
func TestDashboardHosts(t *testing.T) {
	t.Parallel()
	insecure := []string{"dashboard", "--listen", "0.0.0.0:0", "--insecure-listen"}
	execute(t, append(insecure, "--allow-break")...).want(t, 2, "", `needs --allowed-hosts(?s:.*)--allowed-hosts locks\.example\.com`)
	execute(t, append(insecure, "--allowed-hosts", "https://locks.example/")...).want(t, 2, "", `must have names of hosts`)
	s := redistest.Start(t)
	for _, flags := range [][]string{
		append(insecure, "--allow-break", "--allowed-hosts", "locks.example,other.example"),
		append(insecure, "--allowed-hosts", "locks.example"),
		{"dashboard", "--listen", "127.0.0.1:0", "--allow-break", "--allowed-hosts", "locks.example"},
		insecure,
	} {
		p := start(t, nil, append(flags, "--url", s.URL())...)
		u, err := url.Parse(p.awaitOutput(t, `http://\S+/`))
		if err != nil {
			t.Fatal(err)
		}
		named := http.StatusMisdirectedRequest
		if strings.Contains(strings.Join(flags, " "), "locks.example") {
			named = http.StatusOK
		}
		for host, want := range map[string]int{
			"evil.example": http.StatusMisdirectedRequest, "evil.example:" + u.Port(): http.StatusMisdirectedRequest, "locks.example": named,
			"192.0.2.7:" + u.Port(): http.StatusOK, "localhost:" + u.Port(): http.StatusOK,
		} {
			if status, body := dashboardGet(t, "http://127.0.0.1:"+u.Port()+"/break?name=x", host); want == http.StatusMisdirectedRequest && status != want || want == http.StatusOK && status == http.StatusMisdirectedRequest {
				t.Errorf("%q: for %s: %d %s", flags, host, status, body)
			}
			if status, _ := dashboardGet(t, "http://127.0.0.1:"+u.Port()+"/", host); status != want {
				t.Errorf("%q: for %s: %d", flags, host, status)
			}
		}
		p.signal(t, syscall.SIGTERM)
		p.wait(t)
	}
}

// TestDemoDashboard checks that the locks of the sale can be seen, also after it.
func TestDemoDashboard(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := start(t, nil, "demo", "--url", s.URL(), "--only", "mutex", "--buyers", "20", "--stock", "10", "--dashboard", "--listen", "127.0.0.1:0")
	at := dashboardURL(t, p)
	if status, body := dashboardGet(t, at, ""); status != http.StatusOK || !strings.Contains(body, "demo on") {
		t.Errorf("%d %s", status, body)
	}
	p.awaitOutput(t, "still open")
	if status, _ := dashboardGet(t, at+"plots", ""); status != http.StatusOK {
		t.Errorf("after the sale: %d", status)
	}
	p.signal(t, syscall.SIGINT)
	p.wait(t).want(t, 0, "spotless", "still open")
}
