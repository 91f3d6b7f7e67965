package main

import (
	"runtime/debug"
	"testing"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	const hash = "0123456789abcdef0123456789abcdef01234567"
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: hash}, {Key: "vcs.modified", Value: modified}}
	}
	for name, tt := range map[string]struct {
		main              string
		settings          []debug.BuildSetting
		release, revision string
		want              string
	}{
		"installed":          {main: "v0.1.0", want: "v0.1.0 (go1.26.0)"},
		"clone":              {main: "(devel)", settings: vcs("false"), want: "devel revision 0123456789ab (go1.26.0)"},
		"modified clone":     {main: "(devel)", settings: vcs("true"), want: "devel revision 0123456789ab, modified (go1.26.0)"},
		"pseudo-version":     {main: "v0.1.1-0.2026", settings: vcs("false"), want: "v0.1.1-0.2026 revision 0123456789ab (go1.26.0)"},
		"released binary":    {main: "(devel)", settings: vcs("true"), release: "v0.1.0", revision: "fedcba9876543210", want: "v0.1.0 revision fedcba987654 (go1.26.0)"},
		"short revision":     {main: "v0.1.0", revision: "fedcba9", want: "v0.1.0 revision fedcba9 (go1.26.0)"},
		"nothing is known":   {want: "devel, revision not recorded: go run omits it, go build -buildvcs=true records it (go1.26.0)"},
		"no module, release": {release: "v0.1.0", want: "v0.1.0 (go1.26.0)"},
	} {
		b := &debug.BuildInfo{GoVersion: "go1.26.0", Settings: tt.settings}
		b.Main.Version = tt.main
		if got := describe(b, tt.release, tt.revision); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
