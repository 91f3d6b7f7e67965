package main

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/examples/internal/server"
)

func TestMain(m *testing.M) {
	if isClerk() {
		exit(clerk(context.Background()))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A holder is stopped, its lease runs out, another one writes, and then it
// wakes up and writes as well. One update is lost without the guard, or the
// test would show nothing; with it none is.
func TestPausedHolderSQL(t *testing.T) {
	real, err := server.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(real.Stop)
	embedded, err := server.StartEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(embedded.Stop)
	for _, s := range []*server.Server{real, embedded} {
		for guarded, want := range map[bool]int{false: amount, true: 2 * amount} {
			t.Run(fmt.Sprintf("%.8s, guarded %v", s.What, guarded), func(t *testing.T) {
				if got, err := play(t.Context(), s.URL, guarded); got != want || err != nil {
					t.Errorf("the account holds %d, want %d; %v", got, want, err)
				}
			})
		}
	}
}

func TestRun(t *testing.T) {
	if err := run(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if err := run(t.Context(), "nonsense"); err == nil {
		t.Error("no error for a wrong URL")
	}
}
