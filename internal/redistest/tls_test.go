package redistest_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	s := redistest.StartWith(t, redistest.WithTLS())
	s.Do(t, "SET", "k", "v")

	files := s.TLS()
	authority, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(authority)
	if err := tryTLS(s.Addr(), config); err == nil {
		t.Error("a client without a certificate was served")
	}
	cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	config.Certificates = []tls.Certificate{cert}
	if err := tryTLS(s.Addr(), config); err != nil {
		t.Error(err)
	}
	c := dial(t, s.Addr())
	c.send("PING")
	c.wantEnd()

	u, err := url.Parse(s.URL())
	if err != nil || u.Scheme != "rediss" || u.Query().Get("tls_key") != files.Key {
		t.Errorf("URL %s, %v", u, err)
	}
	s.Restart()
	s.Do(t, "PING")
}

// tryTLS sees whether a server answers. With TLS 1.3 a client only learns from
// the answer that its certificate was refused.
func tryTLS(addr string, config *tls.Config) error {
	conn, err := tls.Dial("tcp", addr, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(redistest.AppendCommand(nil, "PING")); err != nil {
		return err
	}
	_, _, err = redistest.NewFrameReader(conn).Next()
	return err
}

func TestTopologiesWithTLS(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.WithTLS(), redistest.WithUser("app", "p"))
	if !strings.HasPrefix(s.URL(), "rediss-sentinel://app:p@") {
		t.Error(s.URL())
	}
	s.Failover()

	c := redistest.StartCluster(t, redistest.WithTLS())
	if !strings.HasPrefix(c.URL(), "rediss-cluster://127.") {
		t.Error(c.URL())
	}
	from := c.MasterOf("k")
	from.Do(t, "SET", "k", "v")
	to := others(c.Masters(), from)[0]
	c.Migrate(redistest.SlotOf("k"), to)
	if got := to.Do(t, "GET", "k"); got != "v" {
		t.Errorf("migrated key: %v", got)
	}
}
