package config

import (
	"crypto/tls"
	"crypto/x509"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast/driver/rueidis"
)

func readAddresses(r *reader, key string, n *yaml.Node) error {
	list, err := r.list(key, n)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return wrong(n.Line, key, "the list is empty: add at least one server, as redis://host:port")
	}
	for _, url := range list {
		r.addresses = append(r.addresses, address{key, n.Line, url})
	}
	return nil
}

// addressKeys contains the key for the addresses in each section.
var addressKeys = map[string]struct {
	mode rueidis.Mode
	key  string
}{
	"singleServerConfig":       {rueidis.Single, "address"},
	"masterSlaveServersConfig": {rueidis.Replicated, "masterAddress"},
	"replicatedServersConfig":  {rueidis.Replicated, "nodeAddresses"},
	"sentinelServersConfig":    {rueidis.Sentinel, "sentinelAddresses"},
	"clusterServersConfig":     {rueidis.Cluster, "nodeAddresses"},
}

// finishServers checks the settings of the servers and completes them.
func finishServers(r *reader) error {
	c := servers(r)
	if r.section == "" {
		return wrong(0, "", "the file has no servers: add one of the sections singleServerConfig, masterSlaveServersConfig, "+
			"sentinelServersConfig, clusterServersConfig and replicatedServersConfig")
	}
	section := r.given[r.section]
	want := addressKeys[r.section]
	if _, ok := r.given[want.key]; !ok {
		return wrong(section.line, r.section, "has no %s: set it to redis://host:port", want.key)
	}
	c.Mode, c.DB = want.mode, r.database
	switch {
	case c.Mode == rueidis.Cluster && c.DB != 0:
		return wrong(r.given["database"].line, "database", "a cluster has only database 0: remove this key")
	case c.Mode == rueidis.Sentinel && c.MasterName == "":
		return wrong(section.line, r.section, "has no masterName: set it to the name that the sentinels use for the master")
	}
	if err := r.credentials(); err != nil {
		return err
	}
	for _, a := range r.addresses {
		if err := r.addServer(a); err != nil {
			return err
		}
	}
	if c.Mode == rueidis.Sentinel && c.TLS != nil {
		c.SentinelTLS = c.TLS.Clone()
	}
	return nil
}

func (r *reader) credentials() error {
	c := servers(r)
	for _, pair := range []struct {
		user, password string
		name           string
		secret         rueidis.Secret
	}{
		{"username", "password", c.Username, c.Password},
		{"sentinelUsername", "sentinelPassword", c.SentinelUsername, c.SentinelPassword},
	} {
		switch {
		case pair.name != "" && pair.secret == "":
			return wrong(r.given[pair.user].line, pair.user, "has no effect without a password: add %s", pair.password)
		case strings.HasPrefix(string(pair.secret), "{aes}"):
			return wrong(r.given[pair.password].line, pair.password, "encrypted passwords are not supported: use a ${VARIABLE} from the environment")
		}
	}
	return nil
}

var (
	socket = regexp.MustCompile(`^(?:redis|valkey)\+uds://(/.+)$`)
	server = regexp.MustCompile(`^(?:redis|valkey)s?://[^/?#]+:\d+$`)
)

func (r *reader) addServer(a address) error {
	c := servers(r)
	if m := socket.FindStringSubmatch(a.url); m != nil {
		if c.Mode != rueidis.Single {
			return wrong(a.line, a.key, "a Unix socket is possible only for a single server: write redis://host:port")
		}
		c.Network, c.Addr = "unix", m[1]
		return nil
	}
	if !server.MatchString(a.url) {
		return wrong(a.line, a.key, "write redis://host:port, or rediss://host:port for TLS, and nothing else")
	}
	parsed, err := rueidis.ParseURL(a.url)
	switch {
	case err != nil:
		return wrong(a.line, a.key, "%w", err)
	case parsed.Mode != rueidis.Single:
		return wrong(a.line, a.key, "an address contains a comma: write a list")
	case c.Mode == rueidis.Single:
		c.Addr = parsed.Addr
	case slices.Contains(c.Addrs, parsed.Addr):
		return wrong(a.line, a.key, "the same server is listed twice: remove one of them")
	case len(c.Addrs) > 0 && (c.TLS == nil) != (parsed.TLS == nil):
		return wrong(a.line, a.key, "some addresses use TLS and some do not: write redis:// or rediss:// for all")
	case a.key == "masterAddress":
		c.Addrs = slices.Insert(c.Addrs, 0, parsed.Addr)
	default:
		c.Addrs = append(c.Addrs, parsed.Addr)
	}
	c.TLS = parsed.TLS
	if parsed.Password != "" {
		if c.Mode != rueidis.Single || c.Password != "" {
			return wrong(a.line, a.key, "contains a password: set it once, as password (for sentinels: sentinelPassword)")
		}
		c.Username, c.Password = parsed.Username, parsed.Password
	}
	return nil
}

func readProtocols(r *reader, key string, n *yaml.Node) (err error) {
	r.protocols, err = r.list(key, n)
	return err
}

// finishTLS completes the TLS settings if the addresses use TLS.
func finishTLS(r *reader) error {
	c := servers(r)
	f := r.files
	if c.TLS == nil {
		if f.line > 0 {
			return wrong(f.line, "holdfast.tls", "the addresses do not use TLS: write rediss:// or valkeys://")
		}
		return nil
	}
	if old, ok := r.given["sslEnableEndpointIdentification"]; ok && r.given["sslVerificationMode"].line > 0 {
		return wrong(old.line, "sslEnableEndpointIdentification", "is the older name of sslVerificationMode: keep only sslVerificationMode")
	}
	// Redisson uses Java key stores. The section holdfast, which Redisson ignores,
	// can name the same certificates as files.
	for store, instead := range map[string]struct{ key, file string }{
		"sslTruststore": {"ca", f.ca},
		"sslKeystore":   {"cert and key", f.cert},
	} {
		if g, ok := r.given[store]; ok && instead.file == "" {
			return wrong(g.line, store, "Java key stores are not supported: export it as PEM, and set holdfast.tls.%s to the files", instead.key)
		}
	}
	t, err := rueidis.TLSFiles(f.ca, f.cert, f.key, f.serverName)
	if err != nil {
		return wrong(f.line, "", "holdfast.tls.%w", err)
	}
	if err := r.versions(t); err != nil {
		return err
	}
	switch chain := r.verification == "CA_ONLY" || r.verification == "NONE" && f.ca != ""; { // as in Redisson
	case chain && f.serverName != "": // the certificate must have this name, regardless of the address
	case chain:
		checkChainOnly(t)
		r.s.AnyHost = true
	case r.verification == "NONE":
		t.InsecureSkipVerify = true
	}
	c.TLS = t
	if c.Mode == rueidis.Sentinel {
		c.SentinelTLS = t.Clone()
	}
	return nil
}

// versions restricts t to the protocol versions in the file.
func (r *reader) versions(t *tls.Config) error {
	if len(r.protocols) == 0 {
		return nil
	}
	two, three := slices.Contains(r.protocols, "TLSv1.2"), slices.Contains(r.protocols, "TLSv1.3")
	switch {
	case !two && !three:
		return wrong(r.given["sslProtocols"].line, "sslProtocols", "must contain TLSv1.2 or TLSv1.3: older versions are not safe")
	case !two:
		t.MinVersion = tls.VersionTLS13
	case !three:
		t.MaxVersion = tls.VersionTLS12
	}
	return nil
}

// checkChainOnly makes t accept any server with a certificate from a trusted
// authority, regardless of the host name in the certificate.
func checkChainOnly(t *tls.Config) {
	roots := t.RootCAs
	t.InsecureSkipVerify = true // also disables the check of the chain, which VerifyConnection replaces
	t.VerifyConnection = func(s tls.ConnectionState) error {
		o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, cert := range s.PeerCertificates[1:] {
			o.Intermediates.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(o)
		return err
	}
}

// finishRetry converts attempts and pauses to the maximum time that they take.
func finishRetry(r *reader) error {
	if r.s.RetryTimeout != 0 || r.attempts == nil && r.delay == nil && r.interval == 0 {
		return nil
	}
	attempts, timeout := 4, 3*time.Second // Redisson's defaults
	if r.attempts != nil {
		attempts = *r.attempts
	}
	if t := servers(r).Timeout; t != 0 {
		timeout = t
	}
	delay := r.delay
	switch {
	case delay != nil:
	case r.interval != 0:
		delay = func(n int) time.Duration { return pauses(n, r.interval, r.interval) }
	default:
		delay = func(n int) time.Duration { return pauses(n, time.Second, 2*time.Second) }
	}
	r.s.RetryTimeout = min(longest, pauses(attempts+1, timeout, timeout)+delay(attempts))
	return nil
}

func finishReplication(r *reader) error {
	s := &r.s
	if r.synced != nil {
		g := r.given["checkLockSyncedSlaves"]
		switch {
		case servers(r).Mode == rueidis.Single: // no replicas: Redisson does not check either
		case s.Replication == "" && *r.synced:
			s.Replication = "acked"
		case s.Replication == "":
			s.Replication = "async"
		case *r.synced == (s.Replication == "async"):
			return wrong(g.line, "checkLockSyncedSlaves", "contradicts holdfast.replication: remove one of them")
		}
	}
	switch {
	case s.Replication == "strict" && s.Replicas == 0:
		return wrong(r.given["replication"].line, "replication", "strict needs the number of replicas that must confirm: add replicas")
	case s.Replication != "strict" && s.Replicas != 0:
		return wrong(r.given["replicas"].line, "replicas", "applies only to replication: strict")
	}
	return nil
}
