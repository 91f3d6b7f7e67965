package otel_test

import (
	"context"
	"log"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/otel"
)

// Metrics and spans go to the global providers of OpenTelemetry.
func Example() {
	ctx := context.Background()
	observer, err := otel.New(otel.Options{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := holdfast.Open(ctx, "redis://localhost:6379", &holdfast.Options{
		Observers: []observe.Observer{observer},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

// The metrics of all locks with names such as order:42 have the name order:*.
func ExampleOptions_label() {
	options := otel.Options{
		Label: func(_, name string) string {
			prefix, _, found := strings.Cut(name, ":")
			if !found {
				return "" // no label
			}
			return prefix + ":*"
		},
	}
	_, _ = otel.New(options)
}
