package prom_test

import (
	"context"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/prom"
)

// The metrics are served for Prometheus at /metrics.
func Example() {
	ctx := context.Background()
	observer := prom.New(prom.Options{})
	prometheus.MustRegister(observer)
	client, err := holdfast.Open(ctx, "redis://localhost:6379", &holdfast.Options{
		Observers: []observe.Observer{observer},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	http.Handle("/metrics", promhttp.Handler())
}
