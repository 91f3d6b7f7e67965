package rueidis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
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

// Config says how to reach a server. The zero value of every field but Addr
// means the default.
type Config struct {
	Network     string // "tcp" (the default) or "unix"
	Addr        string // host:port, or the path of a socket
	Username    string
	Password    Secret
	DB          int
	ClientName  string
	TLS         *tls.Config   // nil: no TLS
	DialTimeout time.Duration // 2 s
	Timeout     time.Duration // how long a call waits for its answer; 2 s
	RESP2       bool          // speak the older protocol, for servers and proxies that know no other
}

func (c *Config) check() error {
	if c.Network == "" {
		c.Network = "tcp"
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = 2 * time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	switch {
	case c.Addr == "":
		return errors.New("no address of a server given")
	case c.DialTimeout < 0 || c.Timeout < 0:
		return errors.New("timeouts must be positive")
	case c.DB < 0:
		return errors.New("the number of the database must not be negative")
	}
	return nil
}

// parameters lists what the query of a URL may say, for the error that refuses
// anything else.
var parameters = []string{
	"client_name", "db", "dial_timeout", "protocol", "timeout",
	"tls_ca", "tls_cert", "tls_key", "tls_server_name",
}

// ParseURL reads a URL of the form
//
//	redis://user:password@host:6379/0?timeout=2s
//	rediss://host:6380/0?tls_ca=ca.pem&tls_cert=me.pem&tls_key=me.key
//	unix:///run/redis.sock?db=1
//
// valkey and valkeys are taken as redis and rediss. The query may set db,
// client_name, dial_timeout, timeout, protocol (2 or 3), and for TLS tls_ca,
// tls_cert, tls_key and tls_server_name. The error of a bad URL never repeats
// it, since it may hold a password.
func ParseURL(raw string) (Config, error) {
	var c Config
	u, err := url.Parse(raw)
	if err != nil {
		// url.Error quotes the whole URL; its inner error may quote a part.
		return c, errors.New("not a URL: write redis://host:port, and percent-encode special characters of the password")
	}
	secure := false
	switch u.Scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		secure = true
	case "unix":
		c.Network, c.Addr = "unix", u.Path
	case "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster":
		return c, fmt.Errorf("%s:// is not supported yet: name one server with redis://host:port", u.Scheme)
	case "":
		return c, errors.New("the URL has no scheme: write redis://host:port")
	default:
		return c, errors.New("unknown scheme: write redis://host:port, rediss://host:port for TLS, or unix:///path")
	}
	if strings.Contains(u.Host, ",") {
		return c, errors.New("several servers in one URL are not supported yet: name one")
	}
	if u.User != nil {
		c.Username = u.User.Username()
		password, _ := u.User.Password()
		c.Password = Secret(password)
		if c.Username != "" && password == "" {
			return c, errors.New("a user without a password: write redis://user:password@host, or redis://:password@host")
		}
	}
	if c.Network != "unix" {
		if err := c.setHost(u); err != nil {
			return c, err
		}
	} else if c.Addr == "" {
		return c, errors.New("the URL names no socket: write unix:///path/to/redis.sock")
	}
	if u.Fragment != "" {
		return c, errors.New("a URL of a server has no #fragment: percent-encode # as %23")
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return c, errors.New("the query of the URL is malformed")
	}
	return c, c.setQuery(q, secure)
}

func (c *Config) setHost(u *url.URL) error {
	host, port := u.Hostname(), u.Port()
	if host == "" {
		return errors.New("the URL names no host: write redis://host:port")
	}
	if port == "" {
		port = "6379"
	} else if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return errors.New("the port must lie between 1 and 65535")
	}
	c.Addr = net.JoinHostPort(host, port)
	if db := strings.Trim(u.Path, "/"); db != "" {
		return c.setDB(db)
	}
	return nil
}

func (c *Config) setDB(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return fmt.Errorf("the database must be a number such as 0, not %q", s)
	}
	c.DB = n
	return nil
}

func (c *Config) setQuery(q url.Values, secure bool) error {
	for name, values := range q {
		if !slices.Contains(parameters, name) {
			return fmt.Errorf("unknown parameter %q: known are %s", name, strings.Join(parameters, ", "))
		}
		if len(values) > 1 {
			return fmt.Errorf("parameter %q is given more than once", name)
		}
		if strings.HasPrefix(name, "tls_") && !secure {
			return fmt.Errorf("parameter %q needs TLS: use rediss://", name)
		}
	}
	c.ClientName = q.Get("client_name")
	if s := q.Get("db"); s != "" {
		if c.DB != 0 {
			return errors.New("the database is given twice: in the path and as db")
		}
		if err := c.setDB(s); err != nil {
			return err
		}
	}
	for name, field := range map[string]*time.Duration{"dial_timeout": &c.DialTimeout, "timeout": &c.Timeout} {
		if s := q.Get(name); s != "" {
			d, err := time.ParseDuration(s)
			if err != nil || d <= 0 {
				return fmt.Errorf("%s must be a positive duration such as 2s, not %q", name, s)
			}
			*field = d
		}
	}
	switch s := q.Get("protocol"); s {
	case "", "3":
	case "2":
		c.RESP2 = true
	default:
		return fmt.Errorf("protocol must be 2 or 3, not %q", s)
	}
	if secure {
		return c.setTLS(q)
	}
	return nil
}

func (c *Config) setTLS(q url.Values) error {
	c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: q.Get("tls_server_name")}
	if file := q.Get("tls_ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("tls_ca: %w", err)
		}
		c.TLS.RootCAs = x509.NewCertPool()
		if !c.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("tls_ca: %s holds no certificate in PEM form", file)
		}
	}
	cert, key := q.Get("tls_cert"), q.Get("tls_key")
	if (cert == "") != (key == "") {
		return errors.New("tls_cert and tls_key go together: give both or neither")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return fmt.Errorf("tls_cert: %w", err)
		}
		c.TLS.Certificates = []tls.Certificate{pair}
	}
	return nil
}
