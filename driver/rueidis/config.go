package rueidis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"
)

// A Secret is a password. It prints as "***" wherever it goes.
type Secret string

func (Secret) redacted() string { return "***" }

// String returns "***".
func (s Secret) String() string { return s.redacted() }

// GoString returns "***".
func (s Secret) GoString() string { return s.redacted() }

// LogValue returns "***".
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.redacted()) }

// MarshalText returns "***".
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.redacted()), nil }

// A Mode says how the servers belong together.
type Mode int

// The modes.
const (
	Single     Mode = iota // one server
	Replicated             // a master and its replicas; whichever is the master is used
	Sentinel               // sentinels name the master
	Cluster                // a Redis Cluster
)

// String returns the name of the mode in lower case.
func (m Mode) String() string {
	switch m {
	case Single:
		return "single"
	case Replicated:
		return "replicated"
	case Sentinel:
		return "sentinel"
	case Cluster:
		return "cluster"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

// Sharded says which family of pub/sub commands the messages of a cluster are
// published with. All clients of a cluster should choose the same: a waiter
// that listens in one family hears nothing of the other. Redisson calls it
// shardedSubscriptionMode.
type Sharded int

// The choices.
const (
	ShardedAuto Sharded = iota // SPUBLISH where the servers know it, as Redisson does
	ShardedOn                  // SPUBLISH
	ShardedOff                 // PUBLISH
)

// Config says how to reach the servers. The zero value of every field but Addr
// or Addrs means the default.
type Config struct {
	Mode       Mode
	Network    string   // "tcp" (the default) or "unix"
	Addr       string   // host:port, or the path of a socket: the server of Mode Single
	Addrs      []string // host:port: the servers of Replicated and Cluster, or the sentinels
	MasterName string   // what the sentinels call the master

	Username         string
	Password         Secret
	SentinelUsername string
	SentinelPassword Secret

	DB         int
	ClientName string

	TLS         *tls.Config // nil: no TLS
	SentinelTLS *tls.Config // nil: no TLS to the sentinels

	DialTimeout  time.Duration // 2 s
	Timeout      time.Duration // how long a call waits for its answer, and for a connection if it needs one; 2 s
	ScanInterval time.Duration // how often to look who serves what, unless Mode is Single; 1 s

	Sharded Sharded // Cluster only
	RESP2   bool    // speak the older protocol, for servers and proxies that know no other
}

// Unverified reports whether connections use TLS without checking whose
// certificate the servers show: InsecureSkipVerify without a function that
// verifies instead.
func (c *Config) Unverified() bool {
	return slices.ContainsFunc([]*tls.Config{c.TLS, c.SentinelTLS}, func(t *tls.Config) bool {
		return t != nil && t.InsecureSkipVerify && t.VerifyConnection == nil && t.VerifyPeerCertificate == nil
	})
}

// check fills in the defaults and refuses what contradicts itself.
func (c *Config) check() error {
	if c.Network == "" {
		c.Network = "tcp"
	}
	for d, value := range map[*time.Duration]time.Duration{
		&c.DialTimeout: 2 * time.Second, &c.Timeout: 2 * time.Second, &c.ScanInterval: time.Second,
	} {
		switch {
		case *d == 0:
			*d = value
		case *d < 0:
			return errors.New("timeouts and the scan interval must be positive")
		}
	}
	switch {
	case c.Mode < Single || c.Mode > Cluster:
		return errors.New("unknown Mode: choose Single, Replicated, Sentinel or Cluster")
	case c.Network != "tcp" && c.Network != "unix":
		return errors.New(`unknown Network: choose "tcp" or "unix"`)
	case c.DB < 0:
		return errors.New("the number of the database must not be negative")
	}
	if err := c.checkAddrs(); err != nil {
		return err
	}
	return c.checkMode()
}

func (c *Config) checkAddrs() error {
	if c.Mode == Single {
		switch {
		case len(c.Addrs) > 0:
			return errors.New("several addresses in mode Single: give one Addr and no Addrs, or choose another Mode")
		case c.Addr == "":
			return errors.New("no address of a server given")
		}
		return nil
	}
	switch {
	case c.Network == "unix":
		return fmt.Errorf("mode %v needs addresses of the form host:port: a Unix socket leads to a single server only", c.Mode)
	case c.Addr != "":
		return fmt.Errorf("mode %v takes Addrs: leave Addr out", c.Mode)
	case len(c.Addrs) == 0:
		return fmt.Errorf("mode %v needs at least one address in Addrs", c.Mode)
	}
	for i, addr := range c.Addrs {
		if addr == "" {
			return fmt.Errorf("address %d is empty", i+1)
		}
		if first := slices.Index(c.Addrs, addr); first < i {
			return fmt.Errorf("addresses %d and %d are the same: name each server once", first+1, i+1)
		}
	}
	return nil
}

// checkMode refuses what has no meaning in the mode.
func (c *Config) checkMode() error {
	if c.Mode != Sentinel {
		switch {
		case c.MasterName != "":
			return errors.New("a name of the master is given, but only sentinels know such names: choose mode Sentinel")
		case c.SentinelUsername != "" || c.SentinelPassword != "" || c.SentinelTLS != nil:
			return errors.New("settings of sentinels are given, but there are none: choose mode Sentinel")
		}
	} else if c.MasterName == "" {
		return errors.New("no name of the master given: say what the sentinels call it")
	}
	switch {
	case c.Mode == Cluster && c.DB != 0:
		return errors.New("a cluster has database 0 only")
	case c.Sharded < ShardedAuto || c.Sharded > ShardedOff:
		return errors.New("unknown Sharded: choose ShardedAuto, ShardedOn or ShardedOff")
	case c.Mode != Cluster && c.Sharded != ShardedAuto:
		return errors.New("only a cluster knows sharded pub/sub: leave Sharded out")
	}
	return nil
}

// TLSFiles returns the settings of TLS connections to a server whose
// certificate is signed by one in the file ca, as a client that shows the
// certificate in cert with its key. All are files in PEM form. Without ca, the
// authorities of the system are trusted; serverName replaces the host of the
// address when the certificate is checked.
func TLSFiles(ca, cert, key, serverName string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s holds no certificate in PEM form", ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, errors.New("cert and key go together: give both or neither")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
