package holdfast_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// What the rules are is tested in internal/check.
func TestCheck(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	c := open(t, s.URL(), holdfast.Options{Replication: holdfast.Replication{Mode: holdfast.Strict, Replicas: 2}})
	fs, err := c.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	topics := make(map[string]holdfast.Finding)
	for _, f := range fs {
		topics[f.Topic] = f
	}
	line := "danger: " + s.Addr() + ": memory: a full server deletes locks, since its maxmemory-policy is allkeys-lru. To change it: CONFIG SET maxmemory-policy noeviction"
	if got := topics["memory"].String(); got != line {
		t.Errorf("%s\nwant\n%s", got, line)
	}
	// These come from the options.
	if f := topics["replicas"]; f.Severity != holdfast.Danger || !strings.HasPrefix(f.Text, "2 replicas") {
		t.Errorf("two replicas are wanted: %v", fs)
	}
	if f := topics["restart"]; f.Severity != holdfast.Warning || !strings.HasSuffix(f.Text, "30s") {
		t.Errorf("the lease time is 30 s: %v", fs)
	}
	if !slices.IsSortedFunc(fs, func(a, b holdfast.Finding) int { return int(b.Severity) - int(a.Severity) }) {
		t.Errorf("not the worst first: %v", fs)
	}
}

func TestCheckFails(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	if fs, err := c.Check(t.Context(), "fine", "{"); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("a bad name: %v, %v", fs, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if fs, err := c.Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("no time: %v, %v", fs, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if fs, err := c.Check(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("after Close: %v, %v", fs, err)
	}
}
