package dashboard_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/dashboard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Whatever is stored, pages, their updates and JSON have a bounded size, and the dashboard
// keeps a bounded amount of it.
func TestFloods(t *testing.T) {
	if redistest.Topology() != "single" {
		t.Skip("a script cannot write to all masters of a cluster")
	}
	paths := []string{"/", "/clients", "/deadlocks", "/limits", "/plots", "/lock?name=lock1"}
	for title, flood := range redistest.Floods {
		t.Run(title, func(t *testing.T) {
			r := newRig(t, dashboard.Options{})
			r.redis.Do(t, "EVAL", flood, "0")
			var streams []*stream // the first round reads what their pages show
			for _, path := range paths {
				streams = append(streams, r.streamOf("/events?page="+strings.Replace(path[1:], "?", "&", 1)))
			}
			r.eventually("/servers", "Read every")
			for i, path := range paths {
				_, body := r.get(path)
				if len(body) > 4<<20 {
					t.Errorf("%s has %d bytes", path, len(body))
				}
				for _, row := range strings.Split(body, ` data-id="`)[1:] {
					if n := strings.IndexByte(row, '"'); n > 100 {
						t.Fatalf("%s has a row whose id has %d bytes", path, n)
					}
				}
				streams[i].until(t, "a message", func(event) bool { return true }) // of a bounded length
			}
			_, body := r.get("/locks.json")
			if len(body) > 100<<20 {
				t.Errorf("the JSON has %d bytes", len(body))
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if all := m.HeapSys >> 20; all > 1500 { // the most that was used at a time
				t.Errorf("the heap has %d MB", all)
			}
		})
	}
}
