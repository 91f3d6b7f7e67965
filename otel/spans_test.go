package otel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/otel"
)

// A traced is a client whose spans are kept.
type traced struct {
	*testing.T
	subject
	server *fake.Driver
	client *holdfast.Client
	spans  *tracetest.InMemoryExporter
	tracer trace.Tracer
	start  time.Time
}

// inTrace runs a test in fake time on a client with an observer.
func inTrace(t *testing.T, o otel.Options, sampler sdk.Sampler, test func(*traced)) {
	synctest.Test(t, func(t *testing.T) {
		tr := &traced{T: t, server: fake.New(), spans: tracetest.NewInMemoryExporter(), start: time.Now()}
		provider := sdk.NewTracerProvider(sdk.WithSyncer(tr.spans), sdk.WithSampler(sampler))
		tr.tracer, o.TracerProvider = provider.Tracer("test"), provider
		tr.subject = newSubject(t, o)
		var err error
		tr.client, err = holdfast.New(tr.server, &holdfast.Options{Observers: []observe.Observer{tr.subject}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		test(tr)
		_ = tr.client.Close()
	})
}

// lock locks the mutex a.
func (tr *traced) lock(ctx context.Context) *holdfast.Lease {
	tr.Helper()
	l, err := tr.client.Mutex("a").Lock(ctx)
	if err != nil {
		tr.Fatal(err)
	}
	return l
}

// take returns the spans since the last call, as text, and empties the exporter.
func (tr *traced) take() (spans tracetest.SpanStubs, text []string) {
	time.Sleep(5 * time.Millisecond)
	synctest.Wait()
	spans = tr.spans.GetSpans()
	tr.spans.Reset()
	for _, s := range spans {
		line := fmt.Sprintf("%s %v..%v", s.Name, s.StartTime.Sub(tr.start), s.EndTime.Sub(tr.start))
		for _, a := range s.Attributes {
			if a.Key == "holdfast.owner" || a.Key == "holdfast.token" || a.Key == "holdfast.looks" {
				continue // they differ
			}
			line += fmt.Sprintf(" %s=%s", strings.TrimPrefix(string(a.Key), "holdfast."), a.Value.String())
		}
		if s.Status.Code != codes.Unset {
			line += fmt.Sprintf(" %v: %s", s.Status.Code, s.Status.Description)
		}
		for _, e := range s.Events {
			line += fmt.Sprintf(" [%s %v]", e.Name, e.Time.Sub(tr.start))
		}
		text = append(text, line)
	}
	return spans, text
}

func (tr *traced) want(lines ...string) tracetest.SpanStubs {
	tr.Helper()
	spans, got := tr.take()
	if strings.Join(got, "\n") != strings.Join(lines, "\n") {
		tr.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
	return spans
}

// A call and its lease are children of the caller's span, and have the times of the events.
func TestSpans(t *testing.T) {
	inTrace(t, otel.Options{}, sdk.AlwaysSample(), func(tr *traced) {
		ctx, parent := tr.tracer.Start(tr.Context(), "parent")
		first := tr.lock(ctx)
		time.AfterFunc(time.Second, func() { _ = first.Release(ctx) })
		second := tr.lock(ctx)
		time.Sleep(time.Second)
		inner := tr.lock(second.Context())
		_ = inner.Release(ctx)
		tr.server.Fail(func(driver.Call) error {
			time.Sleep(time.Second) // the answer to the release is late, but the hold ends before
			return nil
		})
		_ = second.Release(ctx)
		tr.server.Fail(nil)
		spans := tr.want(
			"mutex wait 0s..0s kind=mutex name=a via=server outcome=acquired",
			"mutex hold 0s..1s kind=mutex name=a via=server",
			"mutex wait 0s..1s kind=mutex name=a via=server outcome=acquired",
			"mutex hold 1s..2s kind=mutex name=a via=server")
		if len(spans) != 4 {
			return
		}
		for i, s := range spans {
			lease := []*holdfast.Lease{first, first, second, second}[i]
			if s.Parent.SpanID() != parent.SpanContext().SpanID() || s.SpanContext.TraceID() != parent.SpanContext().TraceID() {
				tr.Errorf("%s is not a child of the caller's span", s.Name)
			}
			got := make(map[string]string)
			for _, a := range s.Attributes {
				got[string(a.Key)] = a.Value.String()
			}
			if got["holdfast.owner"] != lease.Owner() || got["holdfast.token"] != fmt.Sprint(lease.Token()) || got["holdfast.looks"] != "1" {
				tr.Errorf("%s: %v, the owner is %s and the token %d", s.Name, got, lease.Owner(), lease.Token())
			}
		}
		for i, link := range []int{-1, 0, -1, 2} {
			switch got := spans[i].Links; {
			case link < 0 && len(got) == 0:
			case link >= 0 && len(got) == 1 && got[0].SpanContext.SpanID() == spans[link].SpanContext.SpanID():
			default:
				tr.Errorf("%s links to %v", spans[i].Name, got)
			}
		}
		tr.exemplars(spans[2])
		parent.End()
	})
}

// exemplars fails the test unless the exemplar of the longest wait is its span.
func (tr *traced) exemplars(wait tracetest.SpanStub) {
	for _, m := range tr.collect(tr) {
		if m.Name != "holdfast.lock.wait.duration" {
			continue
		}
		for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
			for _, e := range p.Exemplars {
				if id := wait.SpanContext.SpanID(); e.Value == 1 && string(e.SpanID) == string(id[:]) {
					return
				}
			}
		}
	}
	tr.Error("the wait has no exemplar")
}

// Spans of calls that fail have the error. That a lock is busy is no error.
func TestFailedSpans(t *testing.T) {
	inTrace(t, otel.Options{}, sdk.AlwaysSample(), func(tr *traced) {
		ctx, parent := tr.tracer.Start(tr.Context(), "parent")
		defer parent.End()
		held := tr.lock(tr.Context()) // without a span
		_, _ = tr.client.Mutex("a").TryLock(ctx, holdfast.Wait(time.Second))
		canceled, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		_, _ = tr.client.Mutex("a").Lock(canceled)
		tr.want(
			"mutex wait 0s..1s kind=mutex name=a outcome=busy",
			"mutex wait 1s..2s kind=mutex name=a outcome=canceled Error: canceled [exception 2s]")
		_ = held.Release(ctx)
		tr.want()
		tr.server.Fail(func(driver.Call) error { return driver.Unsent(errors.New("no network")) })
		_, _ = tr.client.Mutex("a").TryLock(ctx)
		_, got := tr.take()
		if len(got) != 1 || !strings.Contains(got[0], "outcome=unavailable Error: unavailable [exception ") {
			tr.Errorf("%q", got)
		}
	})
}

// A lost lease has one span, which ends with the loss.
func TestLostSpan(t *testing.T) {
	inTrace(t, otel.Options{}, sdk.AlwaysSample(), func(tr *traced) {
		ctx, parent := tr.tracer.Start(tr.Context(), "parent")
		defer parent.End()
		l := tr.lock(ctx)
		time.Sleep(time.Second)
		tr.server.FailOver("a")
		time.Sleep(time.Second)
		_ = l.Release(ctx)
		spans := tr.want(
			"mutex wait 0s..0s kind=mutex name=a via=server outcome=acquired",
			"mutex hold 0s..1s kind=mutex name=a via=server reason=failover Error: lost: failover [exception 1s]")
		if len(spans) == 2 && len(spans[1].Links) != 1 {
			tr.Error(spans[1].Links)
		}
	})
}

// A release that fails is an error of the span.
func TestUnreleasedSpan(t *testing.T) {
	inTrace(t, otel.Options{}, sdk.AlwaysSample(), func(tr *traced) {
		ctx, parent := tr.tracer.Start(tr.Context(), "parent")
		defer parent.End()
		l := tr.lock(ctx)
		time.Sleep(time.Second)
		tr.server.Fail(func(c driver.Call) error { return driver.Unsent(errors.New("no network")) })
		_ = l.Release(ctx)
		tr.server.Fail(nil)
		tr.want(
			"mutex wait 0s..0s kind=mutex name=a via=server outcome=acquired",
			"mutex hold 0s..1s kind=mutex name=a via=server Error: the release failed [exception 1s]")
	})
}

// Without a sampled span in the context there are no spans, unless they are wanted as roots.
func TestRootSpans(t *testing.T) {
	pair := func(tr *traced, ctx context.Context) {
		_ = tr.lock(ctx).Release(ctx)
	}
	inTrace(t, otel.Options{}, sdk.AlwaysSample(), func(tr *traced) {
		pair(tr, tr.Context())
		tr.want()
	})
	inTrace(t, otel.Options{RootSpans: true}, sdk.NeverSample(), func(tr *traced) {
		ctx, _ := tr.tracer.Start(tr.Context(), "parent") // is not sampled
		pair(tr, ctx)
		pair(tr, tr.Context())
		tr.want()
	})
	inTrace(t, otel.Options{RootSpans: true}, sdk.AlwaysSample(), func(tr *traced) {
		pair(tr, tr.Context())
		for _, s := range tr.want(
			"mutex wait 0s..0s kind=mutex name=a via=server outcome=acquired",
			"mutex hold 0s..0s kind=mutex name=a via=server") {
			if s.Parent.IsValid() {
				tr.Errorf("%s has a parent", s.Name)
			}
		}
	})
}
