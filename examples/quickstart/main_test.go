package main

import (
	"context"
	"testing"
)

// Both servers, since a machine with a real one would never try the other.
func TestQuickstart(t *testing.T) {
	if err := run(t.Context(), ""); err != nil {
		t.Error(err)
	}
	s, err := startEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	if err := run(t.Context(), s.url); err != nil {
		t.Error(err)
	}
}

func TestWrongURL(t *testing.T) {
	if err := run(context.Background(), "nonsense"); err == nil {
		t.Error("no error")
	}
}
