package main_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestFloods checks that the output has a bounded size, whatever is stored.
func TestFloods(t *testing.T) {
	t.Parallel()
	program, err := unraced()
	if err != nil {
		t.Fatal(err)
	}
	for title, flood := range redistest.Floods {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			s.Do(t, "EVAL", flood, "0")
			for _, tt := range []struct {
				most int
				args []string
			}{
				{2 << 20, []string{"ls"}},
				{32 << 20, []string{"ls", "--json"}},
				{2 << 20, []string{"watch", "--count", "1"}},
				{2 << 20, []string{"show", "lock1"}},
			} {
				p := startProgram(t, program, nil, append(tt.args, "--url", s.URL())...)
				_ = p.in.Close()
				r := p.wait(t)
				if r.status != 0 && r.status != 123 || len(r.out) > tt.most { // 123: there is no such lock
					t.Errorf("%q: status %d, %d bytes: %s", tt.args, r.status, len(r.out), r.err)
				}
			}
		})
	}
}
