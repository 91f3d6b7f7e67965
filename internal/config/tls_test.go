package config

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate writes a certificate for the host "right" that signs itself, and
// its key, and returns their files.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "right"}, DNSNames: []string{"right"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &priv.PublicKey, priv)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	save := func(name, kind string, data []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return save("cert.pem", "CERTIFICATE", der), save("key.pem", "EC PRIVATE KEY", keyDER)
}

// Redisson's modes of verification, tried in handshakes.
func TestVerification(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	other, _ := certificate(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		mode, ca, host string
		ok             bool
		serverName     string
	}{
		{"STRICT", cert, "right", true, ""},
		{"STRICT", cert, "wrong", false, ""},
		{"STRICT", other, "right", false, ""},
		{"STRICT", "", "right", false, ""},
		{"CA_ONLY", cert, "wrong", true, ""},
		{"CA_ONLY", other, "right", false, ""},
		{"CA_ONLY", "", "right", false, ""},
		{"NONE", cert, "wrong", true, ""}, // with a store of authorities, Redisson asks them even then
		{"NONE", other, "right", false, ""},
		{"NONE", "", "wrong", true, ""},
		{"", cert, "wrong", false, ""},
		{"CA_ONLY", cert, "wrong", true, "right"}, // serverName replaces the host
		{"CA_ONLY", cert, "right", false, "wrong"},
		{"CA_ONLY", other, "right", false, "right"},
		{"NONE", cert, "right", false, "wrong"},
		{"NONE", "", "right", true, "wrong"},
	} {
		text := "singleServerConfig: {address: 'rediss://h:1'}\n"
		if test.mode != "" {
			text += "sslVerificationMode: " + test.mode + "\n"
		}
		if test.ca != "" {
			text += "sslTruststore: file:ca.jks\n"
		}
		if test.ca+test.serverName != "" {
			text += fmt.Sprintf("holdfast: {tls: {ca: %q, serverName: %q}}\n", test.ca, test.serverName)
		}
		s, err := Parse([]byte(text), environment)
		if err != nil {
			t.Fatal(err)
		}
		if chain := test.mode == "CA_ONLY" || test.mode == "NONE" && test.ca != ""; s.AnyHost != (chain && test.serverName == "") {
			t.Errorf("%+v: any host is %v", test, s.AnyHost)
		}
		if s.Servers.Unverified() != (test.mode == "NONE" && test.ca == "") {
			t.Errorf("%+v: unverified is %v", test, s.Servers.Unverified())
		}
		c := s.Servers.TLS.Clone()
		c.ServerName = cmp.Or(c.ServerName, test.host) // as clients do
		near, far := net.Pipe()
		server := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{pair}})
		go func() { _ = server.Handshake(); _ = far.Close() }()
		if err := tls.Client(near, c).HandshakeContext(t.Context()); (err == nil) != test.ok {
			t.Errorf("%+v: %v", test, err)
		}
		_ = near.Close()
	}
}

func TestTLSSettings(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	read := func(more string) (Settings, error) {
		return Parse([]byte("sentinelServersConfig: {sentinelAddresses: ['rediss://h:1'], masterName: m}\n"+more), environment)
	}
	s, err := read(fmt.Sprintf("sslKeystore: file:me.p12\nsslKeystorePassword: x\nsslProtocols: [TLSv1.3]\nholdfast: {tls: {cert: %q, key: %q, serverName: other}}", cert, key))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*tls.Config{s.Servers.TLS, s.Servers.SentinelTLS} {
		if c == nil || len(c.Certificates) != 1 || c.ServerName != "other" || c.MinVersion != tls.VersionTLS13 || c.InsecureSkipVerify {
			t.Errorf("%+v", c)
		}
	}
	if s, err := read("sslProtocols: [TLSv1.1, TLSv1.2]"); err != nil || s.Servers.TLS.MinVersion != tls.VersionTLS12 || s.Servers.TLS.MaxVersion != tls.VersionTLS12 {
		t.Errorf("TLS 1.2 only: %+v, %v", s.Servers.TLS, err)
	}
	_, err = Parse([]byte("singleServerConfig: {address: 'rediss://h:1', sslEnableEndpointIdentification: true}\nsslVerificationMode: NONE"), environment)
	if err == nil || !strings.Contains(err.Error(), "line 1: sslEnableEndpointIdentification: is the older name") {
		t.Errorf("both names of a setting: %v", err)
	}
	for more, want := range map[string]string{
		"sslTruststore: file:ca.jks":                                "line 2: sslTruststore: Java key stores",
		"sslKeystore: file:me.p12":                                  "line 2: sslKeystore: Java key stores",
		"sslKeystore: file:me.p12\nholdfast: {tls: {ca: /nothing}}": "line 2: sslKeystore: Java key stores",
		"sslProtocols: [TLSv1.1]":                                   "line 2: sslProtocols: must contain TLSv1.2",
		"holdfast: {tls: {ca: /does/not/exist}}":                    "holdfast.tls.ca: open /does/not/exist",
		"holdfast: {tls: {cert: x}}":                                "holdfast.tls.cert and key go together",
		"sslVerificationMode: FULL":                                 "must be STRICT, CA_ONLY or NONE",
	} {
		if _, err := read(more); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
	}
}
