package otel_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/otel"
)

// observer returns an observer, and a context that contains a sampled span if there are traces.
func observer(b *testing.B, with string) (context.Context, observe.Observer) {
	ctx, options := b.Context(), otel.Options{TracerProvider: noop.NewTracerProvider()}
	switch with {
	case "empty":
		return ctx, observe.Func(func(observe.Event) {})
	case "traces":
		exporter := tracetest.NewInMemoryExporter()
		provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(sdk.NewBatchSpanProcessor(forgetful{exporter})))
		b.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
		options.TracerProvider = provider
		ctx, _ = provider.Tracer("bench").Start(ctx, "parent")
	}
	options.MeterProvider = metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	o, err := otel.New(options)
	if err != nil {
		b.Fatal(err)
	}
	return ctx, o
}

// BenchmarkObserve measures the time that the observer takes per lock and release, on the
// goroutine of the observer.
func BenchmarkObserve(b *testing.B) {
	for _, with := range []string{"metrics", "traces"} {
		b.Run(with, func(b *testing.B) {
			ctx, o := observer(b, with)
			e := observe.Event{
				Client: "c", ID: 1, Context: ctx, Kind: "mutex", Name: "a", Owner: "c:1", Token: 1, Via: observe.ViaServer, Looks: 1,
				Waited: time.Millisecond, Held: time.Millisecond, Time: time.Now(),
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, e.Type = range []observe.Type{observe.Started, observe.Acquired, observe.Released} {
					o.Observe(e)
				}
				e.ID++
			}
		})
	}
}

// BenchmarkObserver measures what the observer costs per lock and release, on a fake server,
// where noise is small.
func BenchmarkObserver(b *testing.B) {
	for _, with := range []string{"none", "empty", "metrics", "traces"} {
		b.Run(with, func(b *testing.B) {
			o := holdfast.Options{Logger: slog.New(slog.DiscardHandler)}
			ctx := b.Context()
			if with != "none" {
				o.Observers = make([]observe.Observer, 1)
				ctx, o.Observers[0] = observer(b, with)
			}
			c, err := holdfast.New(fake.New(), &o)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			m := c.Mutex("a")
			b.ReportAllocs()
			for b.Loop() {
				l, err := m.Lock(ctx)
				if err != nil {
					b.Fatal(err)
				}
				_ = l.Release(ctx)
			}
			if n := c.Stats().DroppedEvents; n > 0 {
				b.ReportMetric(float64(n)/float64(b.N), "dropped/op")
			}
		})
	}
}

// forgetful is an exporter that does not keep its spans for long.
type forgetful struct{ *tracetest.InMemoryExporter }

func (f forgetful) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	defer f.Reset()
	return f.InMemoryExporter.ExportSpans(ctx, spans)
}
