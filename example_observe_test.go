package holdfast_test

import (
	"context"
	"log"
	"net/http"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/debug"
	"github.com/holdfast-go/holdfast/observe"
)

// An observer is told what happens to locks.
func ExampleOptions_observers() {
	client, err := holdfast.Open(context.Background(), "redis://localhost:6379", &holdfast.Options{
		Observers: []observe.Observer{observe.Func(func(e observe.Event) {
			if e.Type == observe.Lost {
				log.Printf("lost the %s %q after %v: %s", e.Kind, e.Name, e.Held, e.Reason)
			}
		})},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	http.Handle("/debug/holdfast", debug.Handler(client))

	stats := client.Stats()
	log.Printf("%d leases, %d calls wait", len(stats.Leases), stats.Waiting)
}
