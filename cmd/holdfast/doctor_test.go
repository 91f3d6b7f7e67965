package main_test

import (
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A diagnosis is the JSON output of doctor.
type diagnosis struct {
	Topology string
	Servers  []struct {
		Node, Version, Role, Error string
		Replicas                   int
		Embedded                   bool
		UptimeMs                   int64
		RoundTripMs, ClockAheadMs  *float64
	}
	Findings []struct{ Severity, Node, Topic, Text, Change string }
	Worst    string
}

func diagnose(t *testing.T, r result) (d diagnosis) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(r.out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil || r.err != "" {
		t.Fatalf("%v\n%s\n%s", err, r.out, r.err)
	}
	return d
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	good := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	good.Do(t, "ACL", "SETUSER", "app", "on", ">pw", "~app:*", "&*", "+@all") // gets a finding of severity info
	bad := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"a good server", []string{"--url", good.URL()}, 0, `^Topology: single\n.*SERVER .*ROUND TRIP.*\n` + good.Addr() + ` +(Valkey )?\d+\.\d+\.\d+ +master +0 .*\d ms`},
		{"a bad one", []string{"--url", bad.URL()}, 1, `danger +` + bad.Addr() + `, memory: the server deletes locks when its memory is full.*\n +To change it: CONFIG SET maxmemory-policy noeviction\n.*warning .*persistence`},
		{"not bad enough", []string{"--url", good.URL(), "--fail-at", "danger"}, 0, `ROUND TRIP`},
		{"all is too much", []string{"--url", "redis://app:pw@" + good.Addr(), "--fail-at", "info"}, 1, `info +` + good.Addr() + `, rights`},
		{"with names", []string{"--url", good.URL(), "app:orders"}, 0, `ROUND TRIP`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			execute(t, append([]string{"doctor"}, tt.args...)...).want(t, tt.status, tt.says, "")
		})
	}
	execute(t, "doctor", "--url", good.URL(), "").want(t, 2, "", `^holdfast: check: invalid argument`)
	execute(t, "doctor", "redis://:secret@localhost").want(t, 2, "", `^holdfast: a URL is not the name of a lock: use --url for it\n`)
	execute(t, "doctor", "--fail-at", "nothing").want(t, 2, "", `it must be info, warning, danger`)
}

// Doctor says what to change on a server that cannot run scripts.
func TestDoctorWithoutLua(t *testing.T) {
	t.Parallel()
	f := drivertest.NewForger(t, false, "EVALSHA", "-ERR Could not find scripting engine 'lua'\r\n")
	f.Arm(true)
	execute(t, "doctor", "--url", "redis://"+f.Addr().String()).want(t, 122, "", `the server has no Lua engine, .*: load Valkey's module lua, as in loadmodule `)
}

func TestDoctorJSON(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	r := execute(t, "doctor", "--json", "--url", s.URL())
	d := diagnose(t, r)
	if r.status != 1 || d.Topology != "single" || d.Worst != "danger" || len(d.Servers) != 1 {
		t.Fatalf("status %d, %+v", r.status, d)
	}
	v := d.Servers[0]
	if v.Node != s.Addr() || v.Role != "master" || v.Version == "" || v.Embedded || v.RoundTripMs == nil || *v.RoundTripMs <= 0 || v.ClockAheadMs == nil {
		t.Errorf("the server: %+v", v)
	}
	if f := d.Findings[0]; f.Severity != "danger" || f.Node != s.Addr() || f.Topic != "memory" || f.Change != "CONFIG SET maxmemory-policy noeviction" {
		t.Errorf("the worst finding: %+v", f)
	}
}

// TestDoctorTopologies checks several servers and an embedded server.
func TestDoctorTopologies(t *testing.T) {
	t.Parallel()
	t.Run("replicated", func(t *testing.T) {
		t.Parallel()
		d := diagnose(t, execute(t, "doctor", "--json", "--url", redistest.StartReplicated(t, 1).URL()))
		if d.Topology != "replicated" || len(d.Servers) != 1 || d.Servers[0].Replicas != 1 {
			t.Errorf("%+v", d)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t)
		d := diagnose(t, execute(t, "doctor", "--json", "--url", c.URL()))
		if d.Topology != "cluster" || len(d.Servers) != len(c.Masters()) {
			t.Errorf("%+v", d)
		}
		for _, s := range d.Servers {
			if s.RoundTripMs == nil {
				t.Errorf("no round trip to %+v", s)
			}
		}
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		p, addr := serves(t, nil, "--server", "embedded")
		r := execute(t, "doctor", "--json", "--url", "redis://"+addr)
		d := diagnose(t, r)
		if r.status != 1 || d.Worst != "warning" || !d.Servers[0].Embedded {
			t.Errorf("status %d, %+v", r.status, d)
		}
		execute(t, "doctor", "--url", "redis://"+addr).want(t, 1, `, embedded: this is an embedded server, .*a few thousand operations`, "")
		p.signal(t, os.Interrupt)
		p.wait(t)
	})
}

// TestDoctorRights checks a user with few permissions.
func TestDoctorRights(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "weak", "on", ">pass\x1bword", "~app:*", "+ping", "+hello", "+evalsha", "+eval")
	u := url.URL{Scheme: "redis", User: url.UserPassword("weak", "pass\x1bword"), Host: s.Addr()}
	r := execute(t, "doctor", "--url", u.String(), "app:orders")
	r.want(t, 1, `danger .*rights.*\n +To change it: ACL SETUSER`, "")
	if strings.Contains(r.out, "word") || strings.Contains(r.out, "\x1b") {
		t.Error("the output contains the password or escape sequences:", r.out)
	}
}

// Doctor names a system that is not supported. A proxy is not even opened.
func TestDoctorOfOtherSystems(t *testing.T) {
	t.Parallel()
	for name, o := range redistest.Documented {
		addr := o.Play(t)
		execute(t, "doctor", "--url", "redis://"+addr).want(t, 1, `\n`+addr+` +`+name+`.*\ndanger +`+addr+`, system: the server is `+name+`, which is not supported: [^\n]*\n +To change it: use Redis or Valkey, without a proxy\n$`, "")
		if d := diagnose(t, execute(t, "doctor", "--json", "--url", "redis://"+addr)); d.Servers[0].Embedded || len(d.Findings) != 1 {
			t.Errorf("%s: %+v", name, d)
		}
	}
	execute(t, "doctor", "--url", "redis://"+redistest.Recorded["Predixy 1.0.5"].Play(t)).want(t, 122, "^$", `^holdfast: open: server refused: the server is Predixy, which is not supported: it is a proxy.*Connect to the servers behind it\n$`)
}
