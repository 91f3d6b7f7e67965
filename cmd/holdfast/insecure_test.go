package main_test

import (
	"fmt"
	"os"
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
	const says = `^holdfast: warning: the certificates of the servers are not checked: [^\n]*\n`
	for _, args := range [][]string{{"ls"}, {"show", "x"}, {"run", "x", "--", "true"}, {"ls", "--json"}} {
		hold(t, append([]string{"--config", unverified}, args...)...).want(t, 0, "*", says)
	}
	hold(t, "--config", unverified, "run", "x", "--verbose", "--", "true").want(t, 0, "", "WARN.*certificates of the servers are not checked")
	r := hold(t, "--config", unverified, "doctor")
	r.want(t, 1, `warning +\S+, tls: the certificates of the servers are not checked`, says)
	if r := hold(t, "--config", file("}\nholdfast: {tls: {ca: "+s.TLS().CA+"}"), "ls"); r.status != 0 || strings.Contains(r.err, "warning") {
		t.Errorf("with an authority: %+v", r)
	}
}
