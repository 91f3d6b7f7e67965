package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TLSFiles are the PEM files that one side of a TLS connection needs: the
// authority for the other side, and its own certificate with the key.
type TLSFiles struct{ CA, Cert, Key string }

// WithTLS makes servers accept only TLS connections with a client certificate.
// URLs contain the files of a client, and [Server.TLS] returns them.
func WithTLS() Option { return func(s *setup) { s.tls = true } }

// TLS returns the files of a client of the server. The test fails if the
// server was not started [WithTLS].
func (s *Server) TLS() TLSFiles {
	if s.tls == nil {
		s.tb.Fatal("redistest: the server was started without WithTLS")
	}
	return *s.tls
}

// newTLSFiles creates an authority and one certificate that is valid for servers
// at the given addresses and for clients.
func newTLSFiles(tb testing.TB, addresses []net.IP) *TLSFiles {
	tb.Helper()
	dir := tb.TempDir()
	f := &TLSFiles{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	if err := f.write(addresses); err != nil {
		tb.Fatalf("redistest: cannot create certificates: %v", err)
	}
	return f
}

func (f *TLSFiles) write(addresses []net.IP) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	from, to := time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest authority"},
		NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	// Servers are clients of each other, so the certificate has both usages.
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "redistest"},
		NotBefore: from, NotAfter: to,
		IPAddresses: addresses, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	caDER, err1 := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	certDER, err2 := x509.CreateCertificate(rand.Reader, cert, ca, &key.PublicKey, caKey)
	keyDER, err3 := x509.MarshalECPrivateKey(key)
	return errors.Join(err1, err2, err3,
		writePEM(f.CA, "CERTIFICATE", caDER),
		writePEM(f.Cert, "CERTIFICATE", certDER),
		writePEM(f.Key, "EC PRIVATE KEY", keyDER))
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// config returns the TLS configuration of a client, or nil without files.
func (f *TLSFiles) config() (*tls.Config, error) {
	if f == nil {
		return nil, nil
	}
	authority, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{cert}}, nil
}

// addTo adds the files to the query of a URL.
func (f *TLSFiles) addTo(query url.Values) {
	query.Set("tls_ca", f.CA)
	query.Set("tls_cert", f.Cert)
	query.Set("tls_key", f.Key)
}

// args returns the settings of a server at port.
func (f *TLSFiles) args(port string) []string {
	return []string{
		"--port", "0", "--tls-port", port,
		"--tls-ca-cert-file", f.CA, "--tls-cert-file", f.Cert, "--tls-key-file", f.Key,
		"--tls-auth-clients", "yes", "--tls-replication", "yes", "--tls-cluster", "yes",
	}
}
