package otel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/internal/measure"
	"github.com/holdfast-go/holdfast/observe"
)

// spans makes spans from events. Their times are those of the events, because an observer
// receives an event later than it happens.
type spans struct {
	tracer trace.Tracer
	roots  bool

	mu    sync.Mutex
	waits map[string]map[uint64]wait // by client and call: the leases that are held
	names map[string]names           // by kind
}

// A wait is the span of the call that acquired a lease.
type wait struct {
	span trace.SpanContext
	end  time.Time
}

// names are the names of the spans of a kind.
type names struct{ wait, hold string }

func newSpans(t trace.Tracer, roots bool) *spans {
	return &spans{tracer: t, roots: roots, waits: make(map[string]map[uint64]wait), names: make(map[string]names)}
}

// make makes the span that the event ends, if it ends one. It returns a context that
// contains the span, or nil.
func (s *spans) make(e observe.Event) context.Context {
	switch e.Type {
	case observe.Acquired, observe.Failed:
		if s.wants(e) {
			return s.waited(e)
		}
	case observe.Released, observe.Lost:
		if s.wants(e) && measure.Ends(e) {
			return s.held(e)
		}
	case observe.Dropped:
		s.forget(e.Client) // the end of a lease may be among the events that were dropped
	}
	return nil
}

// wants reports whether the call of an event has spans.
func (s *spans) wants(e observe.Event) bool {
	if e.Context == nil || e.Via == observe.ViaReentry {
		return false
	}
	parent := trace.SpanContextFromContext(e.Context)
	return parent.IsSampled() && parent.IsValid() || s.roots && !parent.IsValid()
}

// waited makes the span of a call that has ended.
func (s *spans) waited(e observe.Event) context.Context {
	outcome := e.Outcome()
	ctx, span := s.start(e, s.named(e.Kind).wait, attribute.String("holdfast.outcome", outcome), trace.WithTimestamp(e.Time.Add(-e.Waited)))
	if !span.IsRecording() {
		return nil
	}
	if e.Err != nil && outcome != "busy" {
		span.RecordError(e.Err, trace.WithTimestamp(e.Time))
		span.SetStatus(codes.Error, outcome)
	}
	span.End(trace.WithTimestamp(e.Time))
	if e.Owner != "" { // there is a lease
		s.keep(e, wait{span.SpanContext(), e.Time})
	}
	return ctx
}

// held makes the span of a lease that has ended.
func (s *spans) held(e observe.Event) context.Context {
	start, options := e.Time.Add(-e.Held), make([]trace.SpanStartOption, 0, 3)
	if before, known := s.take(e); known {
		start = before.end // the event of a release is as late as the answer of the server
		options = append(options, trace.WithLinks(trace.Link{SpanContext: before.span}))
	}
	var reason attribute.KeyValue
	if e.Type == observe.Lost {
		reason = attribute.String("holdfast.reason", e.Reason)
	}
	ctx, span := s.start(e, s.named(e.Kind).hold, reason, append(options, trace.WithTimestamp(start))...)
	if !span.IsRecording() {
		return nil
	}
	end := start.Add(e.Held)
	switch {
	case e.Type == observe.Lost:
		span.RecordError(e.Err, trace.WithTimestamp(end))
		span.SetStatus(codes.Error, "lost: "+e.Reason)
	case e.Err != nil:
		span.RecordError(e.Err, trace.WithTimestamp(end))
		span.SetStatus(codes.Error, "the release failed")
	}
	span.End(trace.WithTimestamp(end))
	return ctx
}

// start starts a span for an event. The attribute is one more if it is valid.
func (s *spans) start(e observe.Event, name string, more attribute.KeyValue, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	attributes := make([]attribute.KeyValue, 0, 8)
	attributes = append(attributes,
		attribute.String("holdfast.kind", e.Kind),
		attribute.String("holdfast.name", e.Name),
		attribute.Int("holdfast.looks", e.Looks))
	if e.Owner != "" {
		attributes = append(attributes, attribute.String("holdfast.owner", e.Owner))
	}
	if e.Token != 0 {
		attributes = append(attributes, attribute.Int64("holdfast.token", e.Token))
	}
	if e.Via != "" {
		attributes = append(attributes, attribute.String("holdfast.via", string(e.Via)))
	}
	if e.Permits != 0 {
		attributes = append(attributes, attribute.Int("holdfast.permits", e.Permits))
	}
	if more.Valid() {
		attributes = append(attributes, more)
	}
	return s.tracer.Start(e.Context, name, append(options, trace.WithAttributes(attributes...))...)
}

// named returns the names of the spans of a kind.
func (s *spans) named(kind string) names {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.names[kind]
	if !ok {
		n = names{kind + " wait", kind + " hold"}
		s.names[kind] = n
	}
	return n
}

// keep keeps the wait for a lease until the lease ends.
func (s *spans) keep(e observe.Event, w wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	leases := s.waits[e.Client]
	if leases == nil {
		leases = make(map[uint64]wait)
		s.waits[e.Client] = leases
	}
	leases[e.ID] = w
}

// take returns the wait for a lease that has ended.
func (s *spans) take(e observe.Event) (wait, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, known := s.waits[e.Client][e.ID]
	delete(s.waits[e.Client], e.ID)
	return w, known
}

// forget forgets the waits of a client.
func (s *spans) forget(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waits, client)
}
