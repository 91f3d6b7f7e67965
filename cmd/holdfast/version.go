package main

import (
	"fmt"
	"runtime/debug"
)

// The linker sets these two variables in released binaries: see .goreleaser.yaml.
var (
	release  string // such as v0.1.0
	revision string // the hash of the commit
)

// version returns the version and the revision of this binary.
func version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		b = &debug.BuildInfo{GoVersion: "unknown version of Go"}
	}
	return describe(b, release, revision)
}

// describe returns the version, the revision and the version of Go of a binary.
// The values of the linker take precedence over those that the Go command has
// recorded: a module version, or a revision if it was built in a clone.
func describe(b *debug.BuildInfo, release, revision string) string {
	modified := ""
	if revision == "" {
		for _, s := range b.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = ", modified"
			}
		}
	}
	v := release
	if v == "" {
		v = b.Main.Version
	}
	if v == "" || v == "(devel)" {
		v = "devel"
		if revision == "" {
			v = "devel, revision not recorded: go run omits it, go build -buildvcs=true records it"
		}
	}
	if revision != "" {
		v += " revision " + revision[:min(12, len(revision))] + modified
	}
	return fmt.Sprintf("%s (%s)", v, b.GoVersion)
}
