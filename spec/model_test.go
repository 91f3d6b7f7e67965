// Package spec checks the models Mutex.tla and Queue.tla with TLC. See README.md.
package spec

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A run is one configuration of the model.
type run struct {
	clients, calls, crashes, failovers int // no bound on calls: 0
	slice                              int
	lossy, strict, calm                bool
	properties                         string // that hold, or that the bug breaks
}

var (
	// safe has three clients. Messages are late, lost and overtake each other.
	safe = run{clients: 3, calls: 3, lossy: true, properties: "P1 P2"}

	// small is the same for two clients that crash and hand off.
	small = run{clients: 2, calls: 3, lossy: true, crashes: 1, slice: 1, properties: "P1 P2 P6"}

	// strict has a replica that is promoted.
	strict = run{clients: 2, calls: 3, failovers: 1, strict: true, properties: "P1 P2"}

	// moved has a slot that moves to a server with another clock.
	moved = run{clients: 2, calls: 3, failovers: 1, properties: "P1 P2"}

	// calm has a server that answers, and messages that arrive.
	calm = run{clients: 3, calm: true, properties: "P5 Turn"}

	// passing is the same for two clients that hand off.
	passing = run{clients: 2, slice: 1, calm: true, properties: "P5 Turn"}

	// deaf loses grants, and a client dies.
	deaf = run{clients: 3, calls: 3, calm: true, lossy: true, crashes: 1, properties: "P5 Undone"}
)

func (r run) with(properties string) run {
	r.properties = properties
	return r
}

func (r run) of(clients int) run {
	r.clients = clients
	return r
}

// bugs are guards that the model is checked without. Each breaks a property.
var bugs = map[string]run{
	"release without an owner check":  small.with("P2"),
	"owner used again":                small.with("P2"),
	"release after a hand-off":        small.with("P2"),
	"unanswered renewal counts":       small.with("P2"),
	"lease counts from the reply":     small.with("P2"),
	"grant counts from the message":   small.with("P2"),
	"grant taken for a whole lease":   small.with("P2"),
	"grant of an old owner":           small.with("P2"),
	"grant counts from the last look": small.with("P2"),
	"grant to the next as well":       safe.with("P1"),
	"grant without the replica":       strict.with("P1"),
	"no poll":                         deaf.of(2).with("P5"),
	"only the first polls":            deaf.with("P5"),
	"hand-off for ever":               passing.with("Turn"),
	"plain releases for ever":         calm.of(2).with("Turn"),
}

func TestModel(t *testing.T) {
	jar := os.Getenv("HOLDFAST_TLC")
	if jar == "" {
		t.Skip("TLC is needed: make model")
	}
	for name, r := range map[string]run{"safe": safe, "small": small, "strict": strict, "moved": moved, "calm": calm, "passing": passing, "deaf": deaf} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv("HOLDFAST_DEEP") != "" && r.calls > 0 {
				r.calls++
			}
			out := check(t, jar, r, "none")
			if !strings.Contains(out, "No error has been found") {
				t.Errorf("%s", out)
			}
			t.Log(states.FindString(out))
		})
	}
	for bug, r := range bugs {
		t.Run(bug, func(t *testing.T) {
			out := check(t, jar, r, bug)
			if broken := regexp.MustCompile(`Invariant .* is violated|properties were violated|property .* is violated`); !broken.MatchString(out) {
				t.Errorf("%s is not broken:\n%s", r.properties, out)
			}
		})
	}
}

// check runs TLC and returns what it prints.
func check(t *testing.T, jar string, r run, bug string) string {
	t.Helper()
	var names []string
	for i := range r.clients {
		names = append(names, fmt.Sprint("c", i+1))
	}
	boolean := func(b bool) string { return strings.ToUpper(fmt.Sprint(b)) }
	cfg := fmt.Sprintf(`CONSTANTS
  Clients = {%s}
  L = 2
  G = 1
  Slice = %d
  MaxNet = 2
  Calls = %d
  Crashes = %d
  Failovers = %d
  Strict = %s
  Lossy = %s
  Calm = %s
  Bug = %q
`, strings.Join(names, ", "), r.slice, r.calls, r.crashes, r.failovers, boolean(r.strict), boolean(r.lossy), boolean(r.calm), bug)
	if r.calm {
		cfg += "SPECIFICATION Live\n"
	} else {
		cfg += "SPECIFICATION Spec\nCONSTRAINT Few\nSYMMETRY Symmetry\n"
	}
	for _, p := range strings.Fields(r.properties) {
		if p == "P1" || p == "P2" {
			cfg += "INVARIANT " + p + "\n"
		} else {
			cfg += "PROPERTY " + p + "\n"
		}
	}
	return tlc(t, jar, "Mutex", cfg)
}

// tlc checks a module with a configuration and returns what TLC prints.
func tlc(t *testing.T, jar, module, cfg string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, module+".cfg")
	if err := os.WriteFile(file, []byte(cfg), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "java", "-XX:+UseParallelGC", "-XX:TieredStopAtLevel=1", "-cp", jar, "tlc2.TLC",
		"-deadlock", "-workers", "auto", "-lncheck", "final", "-metadir", dir, "-config", file, module+".tla")
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out)
}

var states = regexp.MustCompile(`(?m)^[0-9]+ states generated, [0-9]+ distinct`)
