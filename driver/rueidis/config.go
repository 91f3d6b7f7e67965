package rueidis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"
)

// A Secret is a password. It is always printed as "***".
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

// A Mode is the topology of the servers.
type Mode int

// The modes.
const (
	Single     Mode = iota // one server
	Replicated             // a master and its replicas; the driver finds and uses the master
	Sentinel               // sentinels report the master
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

// Sharded selects the pub/sub commands for messages in a cluster. All clients of
// a cluster should use the same value: a waiter that is subscribed with one
// family of commands does not receive messages of the other. Redisson calls this
// setting shardedSubscriptionMode.
type Sharded int

// The values of Sharded.
const (
	ShardedAuto Sharded = iota // SPUBLISH if the servers support it, as Redisson does
	ShardedOn                  // SPUBLISH
	ShardedOff                 // PUBLISH
)

// Config describes the servers and how to connect to them. The zero value of
// every field except Addr and Addrs means the default.
type Config struct {
	Mode       Mode
	Network    string   // "tcp" (the default) or "unix"
	Addr       string   // mode Single: host:port, or the path of a socket
	Addrs      []string // other modes: host:port of the servers, or of the sentinels
	MasterName string   // the name of the master at the sentinels

	Username         string
	Password         Secret
	SentinelUsername string
	SentinelPassword Secret

	// Credentials, if it is not nil, returns the user and the password for each
	// new connection, also to sentinels and for subscriptions. It replaces
	// Username, Password and those of the sentinels. An empty user means the
	// default user. An empty user and password mean no login.
	//
	// Several goroutines may call it at the same time. It should cache what it
	// returns: after a failure of a server, it is called again and again. If it
	// fails, panics, or takes longer than DialTimeout, or if the server rejects
	// the credentials, the server counts as unreachable. The driver then tries
	// again.
	Credentials func(ctx context.Context, peer Peer) (username string, password Secret, err error)

	DB         int
	ClientName string

	TLS         *tls.Config // nil: no TLS
	SentinelTLS *tls.Config // nil: no TLS to the sentinels

	DialTimeout  time.Duration // default 2 s
	Timeout      time.Duration // limit of a call, including the connection if one must be opened; default 2 s
	ScanInterval time.Duration // how often to scan for changes of masters and slots, unless Mode is Single; default 1 s

	// RejectReplica makes Open fail if the server is a read-only replica. It applies to
	// mode Single; in other modes the driver finds the master.
	RejectReplica bool

	Sharded Sharded // Cluster only
	RESP2   bool    // use RESP2, for servers and proxies without RESP3
}

// Unverified reports whether connections use TLS without verification of the
// server certificate: InsecureSkipVerify is set and there is no function that
// verifies instead.
func (c *Config) Unverified() bool {
	return slices.ContainsFunc([]*tls.Config{c.TLS, c.SentinelTLS}, func(t *tls.Config) bool {
		return t != nil && t.InsecureSkipVerify && t.VerifyConnection == nil && t.VerifyPeerCertificate == nil
	})
}

// check sets the defaults. It returns an error if fields contradict each other.
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
		return errors.New("the database number must not be negative")
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
			return errors.New("no server address given")
		}
		return nil
	}
	switch {
	case c.Network == "unix":
		return fmt.Errorf("mode %v needs addresses of the form host:port: a Unix socket connects to a single server only", c.Mode)
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
			return fmt.Errorf("addresses %d and %d are the same: list each server once", first+1, i+1)
		}
	}
	return nil
}

// checkMode returns an error for a field that the mode does not use.
func (c *Config) checkMode() error {
	if c.Mode != Sentinel {
		switch {
		case c.MasterName != "":
			return errors.New("a master name is given, but only mode Sentinel uses it: choose mode Sentinel")
		case c.SentinelUsername != "" || c.SentinelPassword != "" || c.SentinelTLS != nil:
			return errors.New("sentinel settings are given, but only mode Sentinel uses them: choose mode Sentinel")
		}
	} else if c.MasterName == "" {
		return errors.New("no master name given: give the name that the sentinels use for the master")
	}
	if c.Credentials != nil && (c.Username != "" || c.Password != "" || c.SentinelUsername != "" || c.SentinelPassword != "") {
		return errors.New("credentials are given twice: set Credentials, or users and passwords")
	}
	switch {
	case c.Mode == Cluster && c.DB != 0:
		return errors.New("a cluster has database 0 only")
	case c.Sharded < ShardedAuto || c.Sharded > ShardedOff:
		return errors.New("unknown Sharded: choose ShardedAuto, ShardedOn or ShardedOff")
	case c.Mode != Cluster && c.Sharded != ShardedAuto:
		return errors.New("only a cluster supports sharded pub/sub: leave Sharded out")
	}
	return nil
}

// TLSFiles returns a TLS configuration. The server certificate must be signed by
// an authority in the file ca. The client presents the certificate in cert with
// its key. All files are PEM files. If ca is empty, the system's authorities are
// trusted. If cert and key are empty, the client presents no certificate. If
// serverName is not empty, it replaces the host of the address when the server
// certificate is verified.
func TLSFiles(ca, cert, key, serverName string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s contains no PEM certificate", ca)
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
