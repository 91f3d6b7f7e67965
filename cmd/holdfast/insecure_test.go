package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestUnverifiedTLS checks that every command warns on standard error if
// certificates are not checked, and that doctor reports it.
func TestUnverifiedTLS(t *testing.T) {
	t.Parallel()
	s := redistest.StartWith(t, redistest.WithTLS(), redistest.Args("--tls-auth-clients", "no"))
	file := func(more string) string {
		name := filepath.Join(t.TempDir(), "redisson.yaml")
		text := fmt.Sprintf("singleServerConfig: {address: 'rediss://%s', timeout: 20000%s}\n", s.Addr(), more)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	unverified := file(", sslEnableEndpointIdentification: false")
	const says = `^holdfast: warning: the TLS certificates of the servers are not verified: [^\n]*\n`
	for _, args := range [][]string{{"ls"}, {"watch", "--count", "1"}, {"run", "x", "--", "true"}, {"ls", "--json"}} {
		execute(t, append([]string{"--config", unverified}, args...)...).want(t, 0, "*", says)
	}
	execute(t, "--config", unverified, "run", "x", "--verbose", "--", "true").want(t, 0, "", "WARN.*certificates of the servers are not verified")
	r := execute(t, "--config", unverified, "doctor")
	r.want(t, 1, `warning +\S+, tls: the TLS certificates of the servers are not verified`, says)
	if r := execute(t, "--config", file("}\nholdfast: {tls: {ca: "+s.TLS().CA+"}"), "ls"); r.status != 0 || strings.Contains(r.err, "warning") {
		t.Errorf("with an authority: %+v", r)
	}
}

// TestRunHidesPassword checks that the program under run gets no password, unless
// --keep-password is given.
func TestRunHidesPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "s3same")
	url := "redis://:s3same@" + s.Addr() + "/0?timeout=20s"
	show := []string{"--", "sh", "-c", `echo "<$HOLDFAST_URL>"; env | grep s3same; true`}
	for _, tt := range []struct {
		name, url string
		args      []string
		want      string
	}{
		{"hidden", url, nil, `^<redis://` + s.Addr() + `/0\?timeout=20s>\n$`},
		{"kept", url, []string{"--keep-password"}, `^<redis://:s3same@[^>]*>\nHOLDFAST_URL=redis://:s3same@`},
		{"not used", "redis-sentinel://u:s3same@h1,h2?master_name=m&sentinel_password=s3same&sentinel_username=w", []string{"--url", url}, `^<redis-sentinel://h1,h2\?master_name=m>\n$`},
		{"not a URL", "s3same", []string{"--url", url}, `^<>\n$`},
		{"none", "", []string{"--url", url}, `^<>\n$`},
	} {
		env := []string{"HOLDFAST_URL=" + tt.url}
		if tt.url == "" {
			env = nil
		}
		executeWith(t, env, "", append(append([]string{"run", "x"}, tt.args...), show...)...).want(t, 0, tt.want, "")
	}
}

// TestAdviceIsReadable checks that redaction keeps the examples in hints.
func TestAdviceIsReadable(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "s3same")
	execute(t, "ls", "--url", "redis://"+s.Addr()).want(t, 122, "", `NOAUTH .* as in redis://:password@host\n`)
	execute(t, "ls", "--url", "redis://me@"+s.Addr()).want(t, 2, "", `write redis://user:password@host, or redis://:password@host\n`)
}

// TestWrongThings checks the errors for a server that is not Redis and for a key
// that is not a lock.
func TestWrongThings(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	r := execute(t, "ls", "--url", "redis://"+strings.TrimPrefix(web.URL, "http://"))
	r.want(t, 122, "", `the server does not speak the Redis protocol: it answered "HTTP/1.1 400 Bad Request`)
	if strings.Contains(r.err, "Is the server running?") {
		t.Error(r.err)
	}
	s := redistest.Start(t)
	s.Do(t, "SET", "text", "x")
	execute(t, "run", "text", "--url", s.URL(), "--", "true").want(t, 122, "", `WRONGTYPE.*use another name, or check which program writes the key\n$`)
	bare := redistest.StartWith(t, redistest.Args("--rename-command", "CONFIG", "", "--appendonly", "yes"))
	r = execute(t, "doctor", "--url", bare.URL())
	r.want(t, 0, `not checked: persistence \(appendfsync\).*unknown command(?s:.*)in the configuration of the server`, "")
	if strings.Contains(r.out, "ACL") {
		t.Error(r.out)
	}
}

// TestVersion checks that a released binary reports what the linker has set, and
// that a binary built in a clone reports its revision.
func TestVersion(t *testing.T) {
	t.Parallel()
	execute(t, "--version").want(t, 0, `^holdfast ((v\d\S+|devel) revision [0-9a-f]{12}(, modified)?|v\d\S+|devel, revision not recorded: .* go build -buildvcs=true records it) \(go1\.`, "")
	file := filepath.Join(t.TempDir(), "holdfast")
	flags := "-X main.release=v9.8.7 -X main.revision=" + strings.Repeat("ab", 20) // as in .goreleaser.yaml
	if out, err := exec.Command("go", "build", "-ldflags", flags, "-o", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command(file, "--version").Output(); err != nil || !strings.HasPrefix(string(out), "holdfast v9.8.7 revision abababababab (go1") {
		t.Errorf("%s (%v)", out, err)
	}
	head, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if dir, err2 := os.Stat("../../.git"); err != nil || err2 != nil || !dir.IsDir() { // go does not record the revision in a worktree
		t.Skip("this is not a clone")
	}
	if out, err := exec.Command("go", "build", "-buildvcs=true", "-o", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command(file, "--version").Output(); err != nil || !strings.Contains(string(out), string(head[:12])) {
		t.Errorf("%s, want %q (%v)", out, head, err)
	}
}
