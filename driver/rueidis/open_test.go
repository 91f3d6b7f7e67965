package rueidis_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var whoami = driver.NewScript("whoami", `return redis.call('incr', KEYS[1])`)

// try opens a URL and runs a script there.
func try(t *testing.T, url string) error {
	t.Helper()
	c, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	bear(&c)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	d, err := rueidis.Open(ctx, c)
	if err != nil {
		return err
	}
	defer d.Close()
	_, err = d.Do(ctx, driver.Call{Script: whoami, Keys: []string{"app:k"}})
	return err
}

func TestUnixSocketAndDatabase(t *testing.T) {
	t.Parallel()
	// The path of a socket is short; the test's own directory may not be.
	dir, err := os.MkdirTemp("", "hf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	s := redistest.Start(t, "--unixsocket", socket)
	if err := try(t, "unix://"+socket+"?db=3&client_name=tester"); err != nil {
		t.Fatal(err)
	}
	if err := try(t, s.URL()+"/3"); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.Do(t, "INFO", "keyspace")); got == "# Keyspace\r\n" {
		t.Error("nothing was written")
	}
	if n := s.Int(t, "EVAL", "redis.call('select', 3); return redis.call('get', KEYS[1])", "1", "app:k"); n != 2 {
		t.Errorf("database 3 has %d, want 2", n)
	}
	if err := try(t, s.URL()+"/99"); driver.ClassOf(err) != driver.Fatal {
		t.Errorf("a database that is not there: %v", err)
	}
}

// The least that a user must be allowed, and what happens with less.
func TestACLUser(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~app:*", "resetchannels", "&redisson_lock__channel:*",
		"-@all", "+eval", "+evalsha", "+incr", "+hello", "+ping", "+subscribe", "+unsubscribe", "+publish")
	host := s.Addr()
	if err := try(t, "redis://app:secret@"+host); err != nil {
		t.Error(err)
	}
	for url, code := range map[string]string{
		"redis://app:wrong@" + host:     "WRONGPASS",
		"redis://nobody:secret@" + host: "WRONGPASS",
	} {
		if err := try(t, url); driver.CodeOf(err) != code || driver.ClassOf(err) != driver.Fatal {
			t.Errorf("%s: %v", code, err)
		}
	}
	s.Do(t, "ACL", "SETUSER", "app", "-incr")
	if err := try(t, "redis://app:secret@"+host); driver.ClassOf(err) != driver.Fatal {
		t.Errorf("not allowed: %v", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newAuthority(t, dir, "ca")
	other := newAuthority(t, dir, "other")
	server := ca.issue(t, dir, "server", x509.ExtKeyUsageServerAuth)
	client := ca.issue(t, dir, "client", x509.ExtKeyUsageClientAuth)
	s := redistest.Start(t, "--tls-cert-file", server+".pem", "--tls-key-file", server+".key",
		"--tls-ca-cert-file", ca.file, "--tls-auth-clients", "yes")
	port := freePort(t)
	for begun := 1; ; begun++ { // another process may have taken the port
		if _, err := s.Try("CONFIG", "SET", "tls-port", fmt.Sprint(port)); err == nil {
			break
		} else if begun == 10 {
			t.Fatal(err)
		}
		port = freePort(t)
	}
	url := fmt.Sprintf("rediss://127.0.0.1:%d?tls_cert=%s.pem&tls_key=%s.key&tls_ca=", port, client, client)
	if err := try(t, url+ca.file); err != nil {
		t.Fatal(err)
	}
	var unknown x509.UnknownAuthorityError
	if err := try(t, url+other.file); !errors.As(err, &unknown) {
		t.Errorf("a certificate of an unknown authority: %v", err)
	}
	var name x509.HostnameError
	if err := try(t, url+ca.file+"&tls_server_name=elsewhere"); !errors.As(err, &name) {
		t.Errorf("a certificate for another name: %v", err)
	}
	if err := try(t, fmt.Sprintf("rediss://127.0.0.1:%d?tls_ca=%s", port, ca.file)); err == nil {
		t.Error("connected without the client's certificate")
	}
	if err := try(t, "rediss://"+s.Addr()+"?tls_ca="+ca.file); err == nil {
		t.Error("TLS with a server that speaks none")
	}
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// An authority signs certificates for the duration of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{cert, key, filepath.Join(dir, name+".pem")}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// issue writes a certificate and its key, and returns the path of both without
// the ending.
func (a *authority) issue(t *testing.T, dir, name string, usage x509.ExtKeyUsage) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	writePEM(t, path+".pem", "CERTIFICATE", der)
	der, err = x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, path+".key", "EC PRIVATE KEY", der)
	return path
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
