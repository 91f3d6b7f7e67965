package dashboard_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/dashboard"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// Only requests for IP addresses, localhost and the hosts of the options are answered: a
// web site can make its own name resolve to any address.
func TestHosts(t *testing.T) {
	plain, named, open := dashboard.Options{AllowBreak: true}, dashboard.Options{AllowBreak: true, Hosts: []string{"Locks.example", "other.example:8787"}}, dashboard.Options{Hosts: []string{"*"}}
	for _, c := range []struct {
		options dashboard.Options
		refused string // hosts
		served  string
	}{
		{plain, "evil.example evil.example:80 localhost.evil.example locks.example 127.0.0.1.evil.example 2130706433", "localhost LOCALHOST:1234 127.0.0.1:99 [::1]:99 [::1] 192.0.2.7 10.0.0.5:8787"},
		{named, "evil.example sub.locks.example locks.example.evil.example", "locks.example LOCKS.example:443 other.example localhost:1 192.0.2.7:8787"},
		{open, "", "evil.example localhost"},
	} {
		r := newRig(t, c.options)
		r.hold("a", someOwner)
		for host := range strings.FieldsSeq(c.refused) {
			for _, path := range []string{"/", "/events?page=", "/locks.json", "/break?name=a"} {
				if resp, body := r.do("GET", path, nil, map[string]string{"Host": host}); resp.StatusCode != http.StatusMisdirectedRequest || !strings.Contains(body, "Options.Hosts") {
					t.Errorf("%v: %s for %s: %s %s", c.options.Hosts, path, host, resp.Status, body)
				}
			}
			if resp, _ := r.do("POST", "/break", url.Values{"seen": {"x"}}, map[string]string{"Host": host}); resp.StatusCode != http.StatusMisdirectedRequest {
				t.Errorf("%v: POST for %s: %s", c.options.Hosts, host, resp.Status)
			}
		}
		for host := range strings.FieldsSeq(c.served) {
			if resp, _ := r.do("GET", "/", nil, map[string]string{"Host": host}); resp.StatusCode != http.StatusOK {
				t.Errorf("%v: for %s: %s", c.options.Hosts, host, resp.Status)
			}
		}
	}
}

// No query parameter makes a handler fail, however large or odd it is.
func TestParameters(t *testing.T) {
	r := newRig(t, dashboard.Options{AllowBreak: true, Observer: new(dashboard.Observer)})
	r.hold("a", someOwner)
	values := []string{
		"", "0", "1", "2", "-1", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "92233720368547759", "1e9", "%00", "%ff%fe", "%", "%zz", ";", "-", "--name",
		"a%0d%0aX:1", "events", strings.Repeat("n", 100_000), strings.Repeat("%ff", 10_000),
	}
	for _, path := range dashboard.Routes() {
		for _, name := range []string{"n", "q", "kind", "sort", "name", "id", "page"} {
			if path == "events" {
				continue // it shows what the pages show, and has no end
			}
			for _, value := range values {
				query := name + "=" + value
				if resp, body := r.get("/" + path + "?" + query); resp.StatusCode >= 500 {
					t.Errorf("/%s?%.60s: %s %.200s", path, query, resp.Status, body)
				}
			}
		}
	}
	for _, n := range []string{"9223372036854775807", "-9223372036854775808", "92233720368547760"} {
		if body := r.page("/?n=" + n); !strings.Contains(body, ">a</a>") {
			t.Errorf("n=%s does not show the last page", n)
		}
		r.streamOf("/events?page=&n="+n).until(t, "the list", func(e event) bool { return len(e.Tables["locks"].Order) == 1 })
	}
}

// A request that another site causes is refused and costs no scan, except that links on
// other sites may lead to a page: that page is served without a scan.
func TestOtherSites(t *testing.T) {
	r := newRig(t, dashboard.Options{AllowBreak: true})
	r.hold("a", someOwner)
	link := func(site, mode, dest string) map[string]string {
		return map[string]string{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
	}
	pages := []string{"/", "/lock?name=a", "/clients", "/deadlocks", "/limits", "/plots", "/servers", "/break?name=a"}
	others := []string{"/events?page=", "/locks.json", "/dashboard.js", "/dashboard.css", "/icon.svg"}
	for _, site := range []string{"cross-site", "same-site"} {
		for _, path := range append(pages, others...) {
			for _, headers := range []map[string]string{
				link(site, "no-cors", "image"), link(site, "no-cors", "empty"), link(site, "cors", "empty"), link(site, "no-cors", "script"),
				link(site, "navigate", "iframe"), link(site, "navigate", "object"),
				{"Sec-Fetch-Site": site},
				{"Origin": "https://evil.example"},
				{"Origin": "null"},
			} {
				if resp, body := r.do("GET", path, nil, headers); resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "another site") {
					t.Errorf("%s with %v: %s", path, headers, resp.Status)
				}
			}
			resp, _ := r.do("GET", path, nil, link(site, "navigate", "document"))
			if want := path == others[0] || path == others[1] || path == others[2] || path == others[3] || path == others[4]; (resp.StatusCode == http.StatusForbidden) != want {
				t.Errorf("a link to %s: %s", path, resp.Status)
			}
			if resp, _ := r.do("POST", path, url.Values{}, link(site, "navigate", "document")); resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("POST %s: %s", path, resp.Status)
			}
		}
	}
	if n := r.board.Scans(); n != 0 {
		t.Errorf("requests of other sites have caused %d scans", n)
	}
	for _, headers := range []map[string]string{nil, link("same-origin", "cors", "empty"), link("none", "navigate", "document"), {"Origin": r.site.URL}} {
		if resp, body := r.do("GET", "/locks.json", nil, headers); resp.StatusCode != http.StatusOK || !strings.Contains(body, `"a"`) {
			t.Errorf("%v: %s %s", headers, resp.Status, body)
		}
	}
}

// A server with timeouts for requests and responses does not end the stream, and the time
// of a message does not count from the start of the request.
func TestStreamTimeouts(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	site := httptest.NewUnstartedServer(r.board)
	site.Config.ReadTimeout, site.Config.WriteTimeout, site.Config.IdleTimeout = 500*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond
	site.Start()
	t.Cleanup(site.Close)
	t.Cleanup(site.CloseClientConnections)
	r.site = site
	s := r.stream()
	s.until(t, "the first message", func(event) bool { return true })
	for range 2 { // twice the timeouts
		idle, err := net.Dial("tcp", site.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = idle.Read(make([]byte, 1)) // until the server ends it, because it is mute
		_ = idle.Close()
	}
	locktest.Lock(t, t.Context(), r.client.Mutex("late"))
	s.until(t, "the lock is listed", func(e event) bool { return len(e.Tables["locks"].Order) == 1 })
}
