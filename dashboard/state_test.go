package dashboard_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dashboard"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A page says how old its data is. After two missed rounds it says that the data is out of
// date, and its times stay.
func TestOutOfDate(t *testing.T) {
	r := newRigOn(t, redistest.Start(t), dashboard.Options{})
	r.hold("kept", someOwner)
	if body := r.eventually("/", "kept"); strings.Contains(body, "Out of date") || !strings.Contains(body, "read <time>") {
		t.Errorf("%s", body)
	}
	s := r.stream()
	s.until(t, "the list is up to date", func(e event) bool { return e.Read > 0 && e.Now-e.Read <= e.Limit })
	r.redis.Kill()
	s.until(t, "the list is out of date", func(e event) bool { return e.Read > 0 && e.Now-e.Read > e.Limit })
	times := regexp.MustCompile(`data-(?:since|until)="\d+">([^<]*)<`)
	age := regexp.MustCompile(`read <time>([^<]*)<`)
	first := r.eventually("/", `<body class="stale"`)
	if !strings.Contains(first, "Out of date") || len(times.FindAllString(first, -1)) < 2 {
		t.Errorf("%s", first)
	}
	locktest.Eventually(t, 20*time.Second, "the age rises", func() bool {
		body := r.page("/")
		if got, want := times.FindAllString(body, -1), times.FindAllString(first, -1); strings.Join(got, "") != strings.Join(want, "") {
			t.Fatalf("the times go on: %q, then %q", want, got)
		}
		return age.FindString(body) != age.FindString(first)
	})
	for _, path := range []string{"/clients", "/deadlocks", "/limits", "/plots", "/lock?name=kept"} {
		if body := r.page(path); !strings.Contains(body, "Out of date") || age.FindString(body) == "" {
			t.Errorf("%s does not say that it is out of date: %s", path, body)
		}
	}
	if body := r.page("/lock?name=other"); !strings.Contains(body, "Unknown: the lock could not be read") || strings.Contains(body, "Free") || strings.Contains(body, "is free") {
		t.Errorf("%s", body)
	}
}

// A dashboard that could not read the servers says nothing about them.
func TestNeverRead(t *testing.T) {
	r := newRigOn(t, redistest.Start(t), dashboard.Options{})
	r.redis.Kill()
	r.eventually("/", "could not be read")
	for _, path := range []string{"/", "/?q=x", "/clients", "/deadlocks", "/limits", "/lock?name=a"} {
		body := r.page(path)
		if m := regexp.MustCompile(`No locks are held|No lock matches|No clients are known|No deadlocks were found|There are no|No permits|is free|Free|>0</b>|>Live`).FindString(body); m != "" || !strings.Contains(body, "Unknown: the ") {
			t.Errorf("%s says %q: %s", path, m, body)
		}
	}
}

// A deadlock is visible on all pages: in the navigation, and in the rows of its locks and
// clients.
func TestStuck(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	r.hold("bystander", someOwner)
	var clients []*holdfast.Client
	var leases []*holdfast.Lease
	for i := range 2 {
		c := locktest.Open(t, r.redis.URL(), holdfast.Options{Label: fmt.Sprint("worker-", i)})
		clients, leases = append(clients, c), append(leases, locktest.Lock(t, t.Context(), c.Mutex(fmt.Sprint("lock ", i))))
	}
	badge := regexp.MustCompile(`id="fact-badge"[^>]*>(?:<b>(\d+)</b>)?<`)
	if m := badge.FindStringSubmatch(r.eventually("/", "bystander")); m == nil || m[1] != "" {
		t.Errorf("without a deadlock: %q", m)
	}
	for i, c := range clients {
		go func() { _, _ = c.Mutex(fmt.Sprint("lock ", 1-i)).Lock(leases[i].Context()) }()
	}
	r.eventually("/deadlocks", "worker-1")
	stuck := regexp.MustCompile(`<td class="name stuck"[^>]*><a[^>]*>([^<]*)</a> <small[^>]*>deadlock<`)
	for path, want := range map[string][]string{"/": {"lock 0", "lock 1"}, "/clients": {clients[0].ID()[:8], clients[1].ID()[:8]}} {
		r.eventually(path, "stuck")
		var names []string
		for _, m := range stuck.FindAllStringSubmatch(r.page(path), -1) {
			names = append(names, m[1])
		}
		if len(names) != 2 || !strings.Contains(strings.Join(names, ","), want[0]) || !strings.Contains(strings.Join(names, ","), want[1]) {
			t.Errorf("%s marks %q, want %q", path, names, want)
		}
	}
	for _, path := range []string{"/", "/clients", "/deadlocks", "/limits", "/plots", "/servers", "/lock?name=bystander"} {
		if m := badge.FindStringSubmatch(r.page(path)); m == nil || m[1] != "1" {
			t.Errorf("%s: the badge is %q", path, m)
		}
	}
	if body := r.page("/lock?name=lock+0"); !strings.Contains(body, "Part of a deadlock") {
		t.Errorf("%s", body)
	}
	if body := r.page("/lock?name=bystander"); strings.Contains(body, "Part of a deadlock") {
		t.Error("a lock that is not part of it is marked")
	}
}

// The page of a name without a key does not claim that there is such a lock.
func TestNoSuchLock(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	r.hold("order:1001", someOwner)
	r.eventually("/", "order:1001")
	const doubt = "Nothing is stored under this name: the lock is free, or there is no such lock."
	for name, similar := range map[string]string{"ORDER:1002": "order:1001", "order:10": "order:1001", "rder:1001": "order:1001", "something else": "", "o": ""} {
		body := r.page("/lock?name=" + url.QueryEscape(name))
		if !strings.Contains(body, doubt) || strings.Contains(body, "mutex") || strings.Contains(body, ">Free<") {
			t.Errorf("%s: %s", name, body)
		}
		if got := strings.Contains(body, "has a similar name"); got != (similar != "") || got && !strings.Contains(body, ">"+similar+"</a> <small>has") {
			t.Errorf("%s: a similar name: %s", name, body)
		}
	}
	if body := r.page("/lock?name=order%3A1001"); strings.Contains(body, "Nothing is stored") {
		t.Errorf("a lock that is held: %s", body)
	}
	r.redis.Do(t, "DEL", "order:1001") // the scanner has seen that this was a lock
	if body := r.eventually("/lock?name=order%3A1001", ">Free<"); strings.Contains(body, doubt) {
		t.Errorf("a lock that was held: %s", body)
	}
}

// A bar is green while there is room, and red if there is none.
func TestFull(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	ctx := t.Context()
	for name, taken := range map[string]int{"full": 5, "nearly": 4, "half": 2} {
		s := r.client.LeasedSemaphore(name)
		if err := s.Set(ctx, 5); err != nil {
			t.Fatal(err)
		}
		locktest.Must[*holdfast.Lease](t)(s.Acquire(ctx, taken))
	}
	body := r.eventually("/limits", ">100 %<")
	for _, want := range []string{`low="4" high="4.5" optimum="0" value="5">100 %`, `low="4" high="4.5" optimum="0" value="4">80 %`, `low="4" high="4.5" optimum="0" value="2">40 %`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s: %s", want, body)
		}
	}
}
