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

// Every command says on standard error that certificates are not checked, and
// doctor has a finding.
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
	for _, args := range [][]string{{"ls"}, {"show", "x"}, {"run", "x", "--", "true"}, {"ls", "--json"}} {
		hold(t, append([]string{"--config", unverified}, args...)...).want(t, 0, "*", says)
	}
	hold(t, "--config", unverified, "run", "x", "--verbose", "--", "true").want(t, 0, "", "WARN.*certificates of the servers are not verified")
	r := hold(t, "--config", unverified, "doctor")
	r.want(t, 1, `warning +\S+, tls: the TLS certificates of the servers are not verified`, says)
	if r := hold(t, "--config", file("}\nholdfast: {tls: {ca: "+s.TLS().CA+"}"), "ls"); r.status != 0 || strings.Contains(r.err, "warning") {
		t.Errorf("with an authority: %+v", r)
	}
}

// The program under run gets no password of ours, unless it is told to be given.
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
		holdWith(t, env, "", append(append([]string{"run", "x"}, tt.args...), show...)...).want(t, 0, tt.want, "")
	}
}

// The command's own advice is readable.
func TestAdviceIsReadable(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "s3same")
	hold(t, "ls", "--url", "redis://"+s.Addr()).want(t, 122, "", `NOAUTH .* as in redis://:password@host\n`)
	hold(t, "ls", "--url", "redis://me@"+s.Addr()).want(t, 2, "", `write redis://user:password@host, or redis://:password@host\n`)
}

// A port that is not Redis's, and a name that is not a lock, are told in words.
func TestWrongThings(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	r := hold(t, "ls", "--url", "redis://"+strings.TrimPrefix(web.URL, "http://"))
	r.want(t, 122, "", `this does not speak the Redis protocol: it has answered "HTTP/1.1 400 Bad Request`)
	if strings.Contains(r.err, "Is the server running?") {
		t.Error(r.err)
	}
	s := redistest.Start(t)
	s.Do(t, "SET", "text", "x")
	hold(t, "run", "text", "--url", s.URL(), "--", "true").want(t, 122, "", `WRONGTYPE.*choose another name\n$`)
	bare := redistest.StartWith(t, redistest.Args("--rename-command", "CONFIG", "", "--appendonly", "yes"))
	r = hold(t, "doctor", "--url", bare.URL())
	r.want(t, 0, `not checked: persistence \(appendfsync\).*unknown command.*in the configuration of the server`, "")
	if strings.Contains(r.out, "ACL") {
		t.Error(r.out)
	}
}

// A binary that was built in a clone knows its revision; one without says how.
func TestVersion(t *testing.T) {
	t.Parallel()
	hold(t, "--version").want(t, 0, `^holdfast (v\d\S+|devel [0-9a-f]{12}|devel, revision not recorded: .* go build -buildvcs=true records it) \(go1\.`, "")
	head, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if dir, err2 := os.Stat("../../.git"); err != nil || err2 != nil || !dir.IsDir() { // go does not look into a worktree
		t.Skip("this is not a clone")
	}
	file := filepath.Join(t.TempDir(), "holdfast")
	if out, err := exec.Command("go", "build", "-buildvcs=true", "-o", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command(file, "--version").Output(); err != nil || !strings.Contains(string(out), string(head[:12])) {
		t.Errorf("%s, want %q (%v)", out, head, err)
	}
}
