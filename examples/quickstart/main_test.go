package main

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/examples/internal/server"
)

// Both servers, since a machine with a real one would never try the other.
func TestQuickstart(t *testing.T) {
	if err := run(t.Context(), ""); err != nil {
		t.Error(err)
	}
	s, err := server.StartEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if err := run(t.Context(), s.URL); err != nil {
		t.Error(err)
	}
}

func TestWrongURL(t *testing.T) {
	if err := run(context.Background(), "nonsense"); err == nil {
		t.Error("no error")
	}
}
