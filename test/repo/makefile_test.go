package repo_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// make -n only prints. It runs a line that contains $(MAKE), with everything else on that line.
func TestDryRun(t *testing.T) {
	targets := captured(`(?m)^([a-z-]+):`, readDoc(t, "Makefile"))
	if len(targets) < 30 {
		t.Fatalf("there are only %q", targets)
	}
	bin := t.TempDir()
	ran := filepath.Join(bin, "ran")
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\necho \"go $*\" >>'"+ran+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, target := range targets {
		cmd := exec.CommandContext(t.Context(), "make", "-n", target, "VERSION=v0.1.0")
		cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "MAKEFLAGS=", "MAKELEVEL=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("make -n %s: %v\n%s", target, err, out)
		}
		if lines, err := os.ReadFile(ran); err == nil {
			t.Errorf("make -n %s runs\n%s", target, lines)
			_ = os.Remove(ran)
		}
	}
}
