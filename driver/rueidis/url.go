package rueidis

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A scheme is the meaning of a URL scheme.
type scheme struct {
	mode   Mode
	secure bool
}

var schemes = map[string]scheme{
	"redis":            {},
	"rediss":           {secure: true},
	"redis-sentinel":   {mode: Sentinel},
	"rediss-sentinel":  {mode: Sentinel, secure: true},
	"redis-cluster":    {mode: Cluster},
	"rediss-cluster":   {mode: Cluster, secure: true},
	"valkey":           {},
	"valkeys":          {secure: true},
	"valkey-sentinel":  {mode: Sentinel},
	"valkeys-sentinel": {mode: Sentinel, secure: true},
	"valkey-cluster":   {mode: Cluster},
	"valkeys-cluster":  {mode: Cluster, secure: true},
	"unix":             {},
}

// parameters lists the query parameters of a URL and the modes that they apply
// to. nil means all modes.
var parameters = map[string][]Mode{
	"client_name":       nil,
	"db":                {Single, Replicated, Sentinel},
	"dial_timeout":      nil,
	"master_name":       {Sentinel},
	"protocol":          nil,
	"scan_interval":     {Replicated, Sentinel, Cluster},
	"sentinel_password": {Sentinel},
	"sentinel_tls":      {Sentinel},
	"sentinel_username": {Sentinel},
	"sharded":           {Cluster},
	"timeout":           nil,
	"tls_ca":            nil,
	"tls_cert":          nil,
	"tls_key":           nil,
	"tls_server_name":   nil,
}

// ParseURL reads a URL of one of the forms
//
//	redis://user:password@host:6379/0?timeout=2s
//	redis://host1,host2:6380,host3/0
//	redis-sentinel://user:password@sentinel1:26379,sentinel2/0?master_name=mymaster
//	redis-cluster://user:password@host1,host2,host3
//	unix:///run/redis.sock?db=1
//
// If redis:// is followed by several servers, the driver finds and uses the
// master. With rediss, rediss-sentinel and rediss-cluster, connections use TLS.
// The schemes may begin with valkey instead (valkeys with TLS).
//
// The query may set db, client_name, dial_timeout, timeout and protocol (2 or
// 3); scan_interval, where there is more than one server; for TLS tls_ca,
// tls_cert, tls_key (files) and tls_server_name; for sentinels master_name,
// sentinel_username, sentinel_password and sentinel_tls (on or off, if it
// differs from the servers'); and for a cluster sharded (auto, on or off).
//
// User, password and query are percent-encoded. The error for an invalid URL
// never contains the URL, since that may contain a password.
func ParseURL(raw string) (Config, error) {
	c, err := parseURL(raw)
	if err != nil {
		return Config{}, err
	}
	checked := c
	if err := checked.check(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// parseURL splits the URL itself, because package net/url does not accept a list
// of hosts.
func parseURL(raw string) (Config, error) {
	var c Config
	name, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return c, errors.New("not a URL: write redis://host:port")
	}
	s, ok := schemes[strings.ToLower(name)]
	if !ok {
		return c, errors.New("unknown scheme: write redis://, redis-sentinel:// or redis-cluster://, rediss… for TLS, or unix:///path")
	}
	if strings.ContainsFunc(rest, unicode.IsControl) {
		return c, errors.New("the URL contains a control character: percent-encode it")
	}
	if strings.Contains(rest, "#") {
		return c, errors.New("a server URL has no #fragment: percent-encode # as %23; give the master name as ?master_name=")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	// An @ further on is most likely the end of a password with a / or ? in it.
	// No error may contain a part of it.
	if strings.Count(authority, "@") > 1 || strings.Contains(path+query, "@") {
		return c, errors.New("unexpected @: give user and password once, before the first server; " +
			"elsewhere percent-encode @ as %40, / as %2F and ? as %3F")
	}
	c.Mode = s.mode
	hosts := authority
	if user, after, ok := strings.Cut(authority, "@"); ok {
		hosts = after
		if err := c.setUser(user); err != nil {
			return c, err
		}
	}
	set := c.setHosts
	if strings.ToLower(name) == "unix" {
		set = c.setSocket
	}
	if err := set(hosts, path); err != nil {
		return c, err
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return c, errors.New("the query of the URL is malformed: write ?name=value&name=value, percent-encoded")
	}
	if err := checkNames(query); err != nil {
		return c, err
	}
	return c, c.setQuery(q, s.secure)
}

func (c *Config) setUser(s string) error {
	user, password, _ := strings.Cut(s, ":")
	var err1, err2 error
	c.Username, err1 = url.PathUnescape(user)
	password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return errors.New("user or password is badly encoded: percent-encode their special characters, % as %25")
	}
	c.Password = Secret(password)
	if user != "" && password == "" {
		return errors.New("a user without a password: write redis://user:password@host, or redis://:password@host")
	}
	return nil
}

func (c *Config) setSocket(host, path string) error {
	path, err := url.PathUnescape(path)
	if err != nil || host != "" || path == "" {
		return errors.New("the URL names no socket: write unix:///path/to/redis.sock")
	}
	c.Network, c.Addr = "unix", path
	return nil
}

func (c *Config) setHosts(hosts, path string) error {
	port := "6379"
	if c.Mode == Sentinel {
		port = "26379"
	}
	list := strings.Split(hosts, ",")
	for i, host := range list {
		addr, err := address(host, port)
		if err != nil && len(list) > 1 {
			return fmt.Errorf("server %d of the list: %w", i+1, err)
		} else if err != nil {
			return err
		}
		list[i] = addr
	}
	switch {
	case c.Mode != Single:
		c.Addrs = list
	case len(list) > 1:
		c.Mode, c.Addrs = Replicated, list
	default:
		c.Addr = list[0]
	}
	if db := strings.Trim(path, "/"); db != "" {
		return c.setDB(db)
	}
	return nil
}

// address parses host, host:port, [ipv6] or [ipv6]:port. It adds the default
// port if there is none.
func address(s, port string) (string, error) {
	host, given := s, ""
	if after, ok := strings.CutPrefix(s, "["); ok {
		host, given, ok = strings.Cut(after, "]")
		host = strings.Replace(host, "%25", "%", 1) // the zone
		if ip, err := netip.ParseAddr(host); !ok || err != nil || !ip.Is6() {
			return "", errors.New("not an IPv6 address between [ and ]: write [::1]:6379")
		}
	} else if i := strings.IndexByte(s, ':'); i >= 0 {
		host, given = s[:i], s[i:]
	}
	switch {
	case strings.Count(given, ":") > 1:
		return "", errors.New("more than one colon: write host:port, an IPv6 address in brackets, and a password before an @")
	case host == "":
		return "", errors.New("no host given: write host:port")
	case given != "":
		number, ok := strings.CutPrefix(given, ":")
		n, err := strconv.ParseUint(number, 10, 16)
		if !ok || err != nil || n == 0 {
			return "", errors.New("the port must be a number between 1 and 65535")
		}
		port = strconv.FormatUint(n, 10)
	}
	if s[0] != '[' && strings.ContainsFunc(host, notInHost) {
		return "", errors.New("the host contains an invalid character: write host:port")
	}
	return net.JoinHostPort(host, port), nil
}

func notInHost(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._", r)
}

func (c *Config) setDB(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return errors.New("the database must be a number, as in redis://host:port/0 or ?db=0")
	}
	c.DB = n
	return nil
}

func (c *Config) setQuery(q url.Values, secure bool) error {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		values := q[name]
		modes := parameters[name]
		switch {
		case len(values) > 1:
			return fmt.Errorf("parameter %q is given more than once", name)
		case values[0] == "":
			return fmt.Errorf("parameter %q is empty: give it a value or leave it out", name)
		case modes != nil && !slices.Contains(modes, c.Mode):
			return fmt.Errorf("parameter %q has no effect in mode %v (%s): leave it out", name, c.Mode, forms[c.Mode])
		}
	}
	c.ClientName, c.MasterName = q.Get("client_name"), q.Get("master_name")
	c.SentinelUsername, c.SentinelPassword = q.Get("sentinel_username"), Secret(q.Get("sentinel_password"))
	switch {
	case c.Mode == Sentinel && c.MasterName == "":
		return errors.New("no master name given: add ?master_name= with the name that the sentinels use")
	case c.SentinelUsername != "" && c.SentinelPassword == "":
		return errors.New("sentinel_username without a password: add sentinel_password")
	}
	if s := q.Get("db"); s != "" {
		if c.DB != 0 {
			return errors.New("the database is given twice: in the path and as db")
		}
		if err := c.setDB(s); err != nil {
			return err
		}
	}
	for name, field := range map[string]*time.Duration{
		"dial_timeout": &c.DialTimeout, "timeout": &c.Timeout, "scan_interval": &c.ScanInterval,
	} {
		if s := q.Get(name); s != "" {
			d, err := time.ParseDuration(s)
			if err != nil || d <= 0 {
				return fmt.Errorf("%s must be a positive duration such as 2s", name)
			}
			*field = d
		}
	}
	switch q.Get("protocol") {
	case "", "3":
	case "2":
		c.RESP2 = true
	default:
		return errors.New("protocol must be 2 or 3")
	}
	switch q.Get("sharded") {
	case "", "auto":
	case "on":
		c.Sharded = ShardedOn
	case "off":
		c.Sharded = ShardedOff
	default:
		return errors.New("sharded must be auto, on or off")
	}
	return c.setTLS(q, secure)
}

// forms has an example URL for each mode.
var forms = map[Mode]string{
	Single:     "redis://host",
	Replicated: "redis://host1,host2",
	Sentinel:   "redis-sentinel://host1,host2",
	Cluster:    "redis-cluster://host1,host2",
}

// checkNames returns an error if a parameter does not exist. The error contains
// the number of the parameter and not its name, since that may be part of a
// password.
func checkNames(query string) error {
	for i, part := range strings.Split(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		if name, err := url.QueryUnescape(name); part != "" && (err != nil || !known(name)) {
			return fmt.Errorf("parameter %d of the URL is unknown: known are %s", i+1, strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
		}
	}
	return nil
}

func known(parameter string) bool {
	_, ok := parameters[parameter]
	return ok
}

func (c *Config) setTLS(q url.Values, secure bool) error {
	sentinels := secure && c.Mode == Sentinel
	switch q.Get("sentinel_tls") {
	case "":
	case "on":
		sentinels = true
	case "off":
		sentinels = false
	default:
		return errors.New("sentinel_tls must be on or off")
	}
	if !secure && !sentinels {
		for name := range q {
			if strings.HasPrefix(name, "tls_") {
				return fmt.Errorf("parameter %q needs TLS: begin the URL with rediss or valkeys", name)
			}
		}
		return nil
	}
	files, err := TLSFiles(q.Get("tls_ca"), q.Get("tls_cert"), q.Get("tls_key"), q.Get("tls_server_name"))
	if err != nil {
		return fmt.Errorf("tls_%w", err)
	}
	if secure {
		c.TLS = files
	}
	if sentinels {
		c.SentinelTLS = files.Clone()
	}
	return nil
}
