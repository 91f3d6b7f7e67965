package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/dashboard"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// free reports whether a lock is free.
func (r *rig) free(name string) bool {
	r.tb.Helper()
	return r.redis.Int(r.tb, "EXISTS", name) == 0
}

// post sends the form that breaks a lock.
func (r *rig) post(seen string, headers map[string]string) (*http.Response, string) {
	r.tb.Helper()
	return r.do("POST", "/break", url.Values{"seen": {seen}}, headers)
}

// A lock is broken if the holders are those that the user has seen.
func TestBreak(t *testing.T) {
	var actions []dashboard.Action
	r := newRig(t, dashboard.Options{AllowBreak: true, Audit: func(a dashboard.Action) { actions = append(actions, a) }})
	const name = "order <42> \xff"
	r.hold(name, someOwner)
	if body := r.page("/break?name=" + url.QueryEscape(name)); !strings.Contains(body, someOwner) || !strings.Contains(body, `order &lt;42&gt; \xff`) {
		t.Errorf("the form does not name the lock and its holders: %s", body)
	}
	resp, body := r.post(r.seen(name), nil)
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, "The lock is broken") || !r.free(name) {
		t.Errorf("%s %s", resp.Status, body)
	}
	if len(actions) != 1 || !actions[0].Broken || actions[0].Lock.Name != name || actions[0].Lock.Holders[0].Owner != someOwner || actions[0].Request.RemoteAddr == "" {
		t.Errorf("%+v", actions)
	}
	locktest.Lock(t, t.Context(), r.client.RWMutex("rw"))
	if resp, _ := r.post(r.seen("rw"), nil); resp.StatusCode != http.StatusOK || !r.free("rw") {
		t.Errorf("a writer: %s", resp.Status)
	}
	if body := r.page("/break?name=free"); strings.Contains(body, "<form") {
		t.Error("a form for a free lock")
	}
}

// A lock that another owner has got meanwhile is not broken.
func TestBreakChanged(t *testing.T) {
	var actions []dashboard.Action
	r := newRig(t, dashboard.Options{AllowBreak: true, Audit: func(a dashboard.Action) { actions = append(actions, a) }})
	r.hold("a", someOwner)
	seen := r.seen("a")
	r.redis.Do(t, "DEL", "a")
	r.hold("a", strings.Replace(someOwner, ":42", ":43", 1))
	resp, body := r.post(seen, nil)
	if resp.StatusCode != http.StatusConflict || !strings.Contains(body, "Nothing was changed") || r.free("a") {
		t.Errorf("%s %s", resp.Status, body)
	}
	if len(actions) != 1 || actions[0].Broken {
		t.Errorf("%+v", actions)
	}
}

// Without AllowBreak there is no form, and requests are refused.
func TestBreakNotAllowed(t *testing.T) {
	allowed := newRig(t, dashboard.Options{AllowBreak: true})
	allowed.hold("a", someOwner)
	r := newRig(t, dashboard.Options{Audit: func(dashboard.Action) { t.Error("an attempt") }})
	r.hold("a", someOwner)
	if body := r.eventually("/lock?name=a", someOwner); strings.Contains(body, "reak") {
		t.Error("the page has a link to the form")
	}
	if resp, body := r.get("/break?name=a"); resp.StatusCode != http.StatusForbidden || strings.Contains(body, "<form") {
		t.Errorf("the form: %s", resp.Status)
	}
	if resp, _ := r.post(allowed.seen("a"), nil); resp.StatusCode != http.StatusForbidden || r.free("a") {
		t.Errorf("the request: %s", resp.Status)
	}
}

// A request that does not come from the form in the same browser is refused.
func TestBreakForged(t *testing.T) {
	r := newRig(t, dashboard.Options{AllowBreak: true, Audit: func(dashboard.Action) { t.Error("an attempt") }})
	r.hold("a", someOwner)
	seen := r.seen("a")
	refused := func(what string, resp *http.Response) {
		t.Helper()
		if resp.StatusCode != http.StatusForbidden || r.free("a") {
			t.Errorf("%s: %s", what, resp.Status)
		}
	}
	for what, headers := range map[string]map[string]string{
		"another site":           {"Sec-Fetch-Site": "cross-site"},
		"another subdomain":      {"Sec-Fetch-Site": "same-site"},
		"another origin":         {"Origin": "https://evil.example"},
		"an origin that is null": {"Origin": "null"},
	} {
		resp, _ := r.post(seen, headers)
		refused(what, resp)
	}
	for what, text := range map[string]string{"nothing": "", "not base64": "%", "too short": "AAAA", "changed": seen[:len(seen)-2] + "AA", "changed at the start": "AA" + seen[2:]} {
		resp, _ := r.post(text, nil)
		refused(what, resp)
	}
	other := newRig(t, dashboard.Options{AllowBreak: true})
	other.hold("a", someOwner)
	resp, _ := r.post(other.seen("a"), nil)
	refused("the form of another dashboard", resp)
	jar := r.http.Jar
	r.http.Jar = nil
	resp, _ = r.post(seen, nil)
	refused("without the cookie", resp)
	resp, _ = r.post(seen, map[string]string{"Cookie": "holdfast-dashboard=AAAAAAAAAAAAAAAAAAAAAAAAAA"})
	refused("with another cookie", resp)
	if resp, _ := r.do("GET", "/break?"+url.Values{"seen": {seen}}.Encode(), nil, nil); resp.StatusCode == http.StatusOK || r.free("a") {
		t.Errorf("with GET: %s", resp.Status)
	}
	r.http.Jar = jar
	u, err := url.Parse(r.site.URL)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(jar.Cookies(u)); n != 1 {
		t.Errorf("%d cookies", n)
	}
	first, _ := newRig(t, dashboard.Options{AllowBreak: true}).get("/break?name=none")
	if c := first.Header.Get("Set-Cookie"); c != "" {
		t.Errorf("a cookie without a form: %s", c)
	}
	fresh := newRig(t, dashboard.Options{AllowBreak: true})
	fresh.hold("a", someOwner)
	first, _ = fresh.get("/break?name=a")
	if c := first.Header.Get("Set-Cookie"); !strings.Contains(c, "HttpOnly") || !strings.Contains(c, "SameSite=Strict") {
		t.Errorf("the cookie is %q", c)
	}
}
