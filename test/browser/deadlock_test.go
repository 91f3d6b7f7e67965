package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dashboard"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// A deadlock appears on its page while the page is open, as a picture and as a table, and
// disappears when it is resolved.
func TestDeadlock(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	tab := newTab(t)
	tab.size(1200, 700, "light")
	tab.open(r.url + "deadlocks")
	tab.await("document.body.innerText.includes('No deadlocks were found')")
	const n = 3
	var leases []*holdfast.Lease
	var clients []*holdfast.Client
	for i := range n {
		c := locktest.Open(t, r.redis.URL(), holdfast.Options{Label: fmt.Sprint("worker-", i)})
		clients = append(clients, c)
		leases = append(leases, locktest.Lock(t, t.Context(), c.Mutex(fmt.Sprint("<b>lock ", i))))
	}
	for i, c := range clients {
		go func() { _, _ = c.Mutex(fmt.Sprint("<b>lock ", (i+1)%n)).Lock(leases[i].Context()) }()
	}
	for i := range n {
		tab.await(fmt.Sprintf("document.getElementById('deadlocks').innerText.includes('worker-%d')", i))
		tab.await(fmt.Sprintf("document.getElementById('cycle').textContent.includes('<b>lock %d')", i))
	}
	tab.await("document.querySelectorAll('#cycle path.arrow').length === 6")
	resp, err := http.Get(r.url + "locks.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Deadlocks []struct{ Calls []any } }
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil || len(doc.Deadlocks) != 1 || len(doc.Deadlocks[0].Calls) != n {
		t.Errorf("JSON: %+v, %v", doc, err)
	}
	resp.Body.Close()
	if file := os.Getenv("HOLDFAST_PICTURE"); file != "" {
		if err := os.WriteFile(file, tab.picture(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range leases {
		_ = l.Release(t.Context())
	}
	tab.await("document.body.innerText.includes('No deadlocks were found')")
}
