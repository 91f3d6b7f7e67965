package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver/rueidis"
)

// environment is what the files of these tests may refer to.
func environment(name string) (string, bool) {
	value, ok := map[string]string{
		"REDIS_PASSWORD": `hun"ter2: #{}`, "SENTINEL_PASSWORD": "sentry", "HOST": "redis.example", "EMPTY": "",
		"TIMEOUT": "700", "DB": "5",
	}[name]
	return value, ok
}

// Whole files as users of Redisson have them, with every key at its usual
// value.
func TestFiles(t *testing.T) {
	usual := rueidis.Config{DialTimeout: 10 * time.Second, Timeout: 3 * time.Second}
	with := func(change func(*rueidis.Config)) rueidis.Config {
		c := usual
		change(&c)
		return c
	}
	for file, want := range map[string]Settings{
		"single.yaml": {
			Servers:      with(func(c *rueidis.Config) { c.Addr = "redis.example:6379" }),
			RetryTimeout: 22 * time.Second, // five times 3 s, and pauses of 1, 2, 2 and 2 s
		},
		"masterslave.yaml": {
			Servers: with(func(c *rueidis.Config) {
				c.Mode, c.DB, c.ClientName = rueidis.Replicated, 2, "shop"
				c.Addrs = []string{"redis.example:6379", "redis.example:6381", "redis.example:6380"}
				c.Username, c.Password = "shop", "hunter2"
			}),
			RetryTimeout: 21 * time.Second,
		},
		"replicated.json": {
			Servers: with(func(c *rueidis.Config) {
				c.Mode, c.Addrs = rueidis.Replicated, []string{"redishost1:2812", "redishost2:2815"}
				c.Password, c.ScanInterval, c.RESP2 = "hunter2", 2*time.Second, true
			}),
			RetryTimeout: 16500 * time.Millisecond,
			Replication:  "async",
		},
		"sentinel.yaml": {
			Servers: with(func(c *rueidis.Config) {
				c.Mode, c.Addrs, c.MasterName = rueidis.Sentinel, []string{"sentinel.example:26379", "sentinel.example:26389"}, "mymaster"
				c.Password, c.SentinelUsername, c.SentinelPassword = `hun"ter2: #{}`, "watcher", "sentry"
				c.DialTimeout, c.ScanInterval = 5*time.Second, time.Second
			}),
			WatchdogTimeout: 20 * time.Second, RenewEvery: 5 * time.Second, PollInterval: time.Second, RetryTimeout: 15 * time.Second,
			Handoffs: -1, HandoffTime: 2 * time.Millisecond, WakeAll: true,
			Replication: "strict", Replicas: 2, SyncTimeout: 500 * time.Millisecond, ClockSkew: 100 * time.Millisecond,
		},
		"cluster.yaml": {
			Servers: with(func(c *rueidis.Config) {
				c.Mode, c.Addrs = rueidis.Cluster, []string{"redis.example:7004", "redis.example:7001", "redis.example:7000"}
				c.ScanInterval, c.Sharded = time.Second, rueidis.ShardedOff
			}),
			RetryTimeout: 22 * time.Second,
		},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(text, environment)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if !slices.Contains(got.Ignored, "threads") || len(got.Ignored) < 5 {
			t.Errorf("%s: ignored: %v", file, got.Ignored)
		}
		if strings.Contains(file, "replicated") != (got.Servers.TLS != nil) {
			t.Errorf("%s: TLS: %+v", file, got.Servers.TLS)
		}
		got.Ignored, got.Servers.TLS, got.Mapper = nil, nil, Mapper{}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, want\n%+v", file, got, want)
		}
	}
}

// parse reads a file in which SINGLE stands for a whole section.
func parse(text string) (Settings, error) {
	text = strings.ReplaceAll(text, "SINGLE", "singleServerConfig: {address: 'redis://h:1'}")
	s, err := Parse([]byte(text), environment)
	if err == nil {
		err = s.CheckNames(s.NamePrefix)
	}
	if err != nil {
		return Settings{}, err
	}
	return s, nil
}

func TestValues(t *testing.T) {
	for text, want := range map[string]Settings{
		"SINGLE":                                                                 {},
		"SINGLE\nprotocol: resp3":                                                {},
		"SINGLE\nlockWatchdogTimeout: 30000":                                     {WatchdogTimeout: 30 * time.Second},
		"SINGLE\nlockWatchdogTimeout: '${TIMEOUT}'":                              {WatchdogTimeout: 700 * time.Millisecond},
		"SINGLE\nlockWatchdogTimeout: ${TIMEOUT:-1}":                             {WatchdogTimeout: 700 * time.Millisecond},
		"SINGLE\nlockWatchdogTimeout: ${EMPTY:-800}":                             {WatchdogTimeout: 800 * time.Millisecond},
		"SINGLE\nlockWatchdogTimeout: ${NONE:-800}":                              {WatchdogTimeout: 800 * time.Millisecond},
		"SINGLE\npassword: ${NONE:-}":                                            {},
		"SINGLE\npassword: 0123":                                                 {Servers: rueidis.Config{Password: "0123"}},
		"SINGLE\npassword: 'null'":                                               {Servers: rueidis.Config{Password: "null"}},
		"SINGLE\npassword: $x${":                                                 {Servers: rueidis.Config{Password: "$x${"}},
		"clusterServersConfig: null\nSINGLE":                                     {},
		"singleServerConfig: {address: 'redis://h:1', password: x}\npassword: x": {Servers: rueidis.Config{Password: "x"}},
		"singleServerConfig: {address: 'redis://u:p%40@h:1'}":                    {Servers: rueidis.Config{Username: "u", Password: "p@"}},
		"singleServerConfig: &s {address: 'redis://h:1', clientName: &n me}\nusername: *n\npassword: x": {
			Servers: rueidis.Config{ClientName: "me", Username: "me", Password: "x"},
		},
		"singleServerConfig: {address: 'redis://h:1', database: \"${DB}\"}":       {Servers: rueidis.Config{DB: 5}},
		"singleServerConfig: {address: 'redis://h:1', retryAttempts: 0}":          {RetryTimeout: 3 * time.Second},
		"singleServerConfig: {address: 'redis://h:1', retryAttempts: 2147483647}": {RetryTimeout: longest},
		"singleServerConfig: {address: 'redis://h:1', retryInterval: 1000}":       {RetryTimeout: 19 * time.Second},
		"singleServerConfig: {address: 'redis://h:1', retryAttempts: 1, timeout: 1000, retryDelay: !org.redisson.config.FullJitterDelay {baseDelay: PT1M, maxDelay: PT1H}}": {
			Servers: rueidis.Config{Timeout: time.Second}, RetryTimeout: 62 * time.Second,
		},
		"singleServerConfig: {address: 'redis://h:1', retryAttempts: 1, timeout: 1000, retryDelay: !!org.redisson.config.DecorrelatedJitterDelay {baseDelay: PT1M, maxDelay: P1DT1H1M1.5S}}": {
			Servers: rueidis.Config{Timeout: time.Second}, RetryTimeout: 25*time.Hour + 63*time.Second + 500*time.Millisecond,
		},
		"SINGLE\ncheckLockSyncedSlaves: true":                                        {}, // a single server has no replicas
		"SINGLE\nholdfast: {replication: async}":                                     {Replication: "async"},
		"SINGLE\nholdfast: {namePrefix: 'shop:'}":                                    {NamePrefix: "shop:"},
		"SINGLE\nnameMapper: !<com.acme.Mapper> {}\nholdfast: {namePrefix: 'shop:'}": {NamePrefix: "shop:", Mapper: Mapper{2, true}},
		"SINGLE\nholdfast: {retryTimeout: 1m}":                                       {RetryTimeout: time.Minute},
		"SINGLE\nsslTruststore: file:store\nholdfast: {}":                            {}, // not used without TLS
		"SINGLE\ncredentialsResolver: !<org.redisson.client.DefaultCredentialsResolver> {}\nnettyHook: !<org.redisson.client.DefaultNettyHook> {}\ncommandMapper: !<org.redisson.config.DefaultCommandMapper> {}": {},
	} {
		got, err := parse(text)
		want.Servers.Addr = "h:1"
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, %v, want\n%+v", text, got, err, want)
		}
	}
	got, err := parse("singleServerConfig: {address: 'valkey+uds:///run/s'}")
	if err != nil || got.Servers.Network != "unix" || got.Servers.Addr != "/run/s" {
		t.Errorf("a socket: %+v, %v", got, err)
	}
	got, err = parse("replicatedServersConfig: {nodeAddresses: 'redis://${HOST}:1'}\ncheckLockSyncedSlaves: true")
	if err != nil || !slices.Equal(got.Servers.Addrs, []string{"redis.example:1"}) || got.Replication != "acked" {
		t.Errorf("one address, not in a list: %+v, %v", got, err)
	}
	got, err = parse("SINGLE\ncodec: {}\nthreads: null\nexecutor: x")
	if err != nil || !slices.Equal(got.Ignored, []string{"codec", "executor"}) {
		t.Errorf("ignored: %v, %v", got.Ignored, err)
	}
}

// Every refusal names the key and the line, says what to do, and repeats no
// value. The secret in them is sesame.
func TestRefusals(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "the file is empty"},
		{"# nothing", "the file is empty"},
		{"- a", "keys and values"},
		{"sesame!", "keys and values"},
		{"a: [", "not valid YAML or JSON near line 1"},
		{"password: *sesame", "not valid YAML or JSON: check"},
		{"SINGLE\n---\nSINGLE", "a second document"},
		{"SINGLE\n---\n[", "not valid YAML or JSON"},
		{"threads: 1", "has no servers"},
		{"SINGLE\nclusterServersConfig: {nodeAddresses: []}", "line 2: clusterServersConfig: the servers are already configured in singleServerConfig"},
		{"SINGLE\nproxyServersConfig: {}", "line 2: proxyServersConfig: this section exists only"},
		{"elasticacheServersConfig: {}", "replicatedServersConfig"},
		{"SINGLE\nSINGLE", "line 2: singleServerConfig: is given twice, first in line 1"},
		{"SINGLE\nthreads: 1\nthreads: 2", "line 3: threads: is given twice, first in line 2"},
		{"singleServerConfig: 7", "singleServerConfig: must be a section"},
		{"singleServerConfig: {}", "line 1: singleServerConfig: has no address"},
		{"clusterServersConfig:\n  nodeAddresses: []", "line 2: nodeAddresses: the list is empty"},
		{"clusterServersConfig:\n  scanInterval: 1", "line 1: clusterServersConfig: has no nodeAddresses"},
		{"masterSlaveServersConfig: {slaveAddresses: ['redis://h:1']}", "has no masterAddress"},
		{"masterSlaveServersConfig: {masterAddress: 'redis://h:1', slaveAddresses: ['redis://h:1']}", "listed twice"},
		{"sentinelServersConfig: {sentinelAddresses: ['redis://h:1']}", "has no masterName"},
		{"sentinelServersConfig: {sentinelAddresses: ['redis://h:1'], masterName: m, sentinelUsername: u}", "add sentinelPassword"},
		{"clusterServersConfig:\n  nodeAddresses: ['redis://h:1']\n  database: 1", "line 3: database: a cluster has only database 0"},
		{"clusterServersConfig: {nodeAddresses: ['redis://h:1', 'redis://h:1']}", "nodeAddresses: the same server is listed twice"},
		{"clusterServersConfig: {nodeAddresses: ['redis://h:1', 'rediss://h:2']}", "some addresses use TLS"},
		{"clusterServersConfig: {nodeAddresses: ['redis+uds:///s']}", "only for a single server"},
		{"clusterServersConfig: {nodeAddresses: ['redis://:sesame@h:1']}", "contains a password"},
		{"clusterServersConfig: {nodeAddresses: ['redis://h:1,h2:2']}", "write a list"},
		{"clusterServersConfig: {nodeAddresses: [[a]]}", "nodeAddresses: must be a single value"},
		{"singleServerConfig: {address: 'redis://:sesame@h:1'}\npassword: x", "contains a password"},
		{"singleServerConfig: {address: 'h:1'}", "address: write redis://host:port"},
		{"singleServerConfig: {address: 'redis://h'}", "address: write redis://host:port"},
		{"singleServerConfig: {address: 'redis://h:1/2'}", "address: write redis://host:port"},
		{"singleServerConfig: {address: 'redis://h:99999'}", "address: the port"},
		{"singleServerConfig: {address: 'redis://sesame@h:1'}", "password"},
		{"singleServerConfig: {address: 'redis://h:1', database: -1}", "database: must be"},
		{"singleServerConfig: {address: 'redis://h:1', database: sesame}", "database: must be"},
		{"singleServerConfig: {address: 'redis://h:1', timeout: 3s}", "timeout: must be a positive number of milliseconds"},
		{"singleServerConfig: {address: 'redis://h:1', timeout: 0}", "timeout: must be"},
		{"singleServerConfig: {address: 'redis://h:1', timeout: 99999999999999}", "timeout: must be"},
		{"singleServerConfig: {address: 'redis://h:1', timeout: [1]}", "timeout: must be a single value"},
		{"singleServerConfig: {address: 'redis://h:1', masterName: m}", "masterName: belongs in section sentinelServersConfig"},
		{"singleServerConfig: {address: 'redis://h:1', lockWatchdogTimeout: 1}", "lockWatchdogTimeout: belongs at the top"},
		{"singleServerConfig: {address: 'redis://h:1', addresss: 1}", "did you mean address?"},
		{"singleServerConfig: {address: 'redis://h:1', retryDelay: PT1S}", "retryDelay: must be one of Redisson's"},
		{"singleServerConfig: {address: 'redis://h:1', retryDelay: {class: com.acme.Sesame}}", "retryDelay: must be one of Redisson's"},
		{"singleServerConfig: {address: 'redis://h:1', retryDelay: {class: org.redisson.config.NewDelay}}", "Java code"},
		{"singleServerConfig: {address: 'redis://h:1', retryDelay: {class: org.redisson.config.ConstantDelay}}", "the delay is zero"},
		{"singleServerConfig: {address: 'redis://h:1', retryDelay: {class: org.redisson.config.ConstantDelay, delay: 5}}", "delay: must be a duration in Java format"},
		{"singleServerConfig: {address: 'redis://h:1', retryDelay: {class: org.redisson.config.ConstantDelay, x: PT5S}}", "a delay has"},
		{"singleServerConfig: {address: 'redis://h:1', password: y}\npassword: x", "line 2: password: is also given in line 1"},
		{"SINGLE\nscanInterval: 1", "line 2: scanInterval: belongs in section clusterServersConfig or replicatedServersConfig or sentinelServersConfig"},
		{"SINGLE\nlockWatchDogTimout: 1", "line 2: unknown setting at the top of the file: did you mean lockWatchdogTimeout?"},
		{"SINGLE\nbananas: 1", "docs/configuration.md"},
		{"SINGLE\nsesame/open: 1", "line 2: expected the name"},
		{"SINGLE\n? [a]\n: 1", "line 2: expected the name"},
		{"SINGLE\n<<: {threads: 1}", "merge keys"},
		{"SINGLE\nusername: me", "add password"},
		{"SINGLE\npassword: '{aes}sesame'", "line 2: password: encrypted"},
		{"SINGLE\nsecretKey: file:x", "line 2: secretKey: encrypted"},
		{"SINGLE\npassword: '${NOBODY}'", "line 2: password: refers to an environment variable that is not set: set it, or write ${NAME:-default}"},
		{"SINGLE\nprotocol: 3", "protocol: must be RESP2 or RESP3"},
		{"SINGLE\ncheckLockSyncedSlaves: 1", "must be true or false"},
		{"SINGLE\nnameMapper: !<com.acme.Mapper> {}", "line 2: nameMapper: Java would map names"},
		{"SINGLE\nnameMapper: !<com.acme.PrefixMapper> {prefix: sesame}", "set Options.NamePrefix"},
		{"SINGLE\nnameMapper: {class: com.acme.Mapper}\nholdfast: {namePrefix: null}", "line 2: nameMapper: Java would map names"},
		{"SINGLE\nnameMapper: !<org.redisson.config.DefaultNameMapper> {}\nholdfast: {namePrefix: sesame}", "line 2: nameMapper: this class does not change names"},
		{"SINGLE\ncommandMapper: !<com.acme.Mapper> {}", "commandMapper: renamed commands"},
		{"SINGLE\ncredentialsResolver: !<com.acme.Vault> {}", "credentialsResolver: it is Java code"},
		{"SINGLE\nnettyHook: !<com.acme.Hook> {}", "nettyHook: it is Java code"},
		{"sentinelServersConfig: {natMap: {a: b}}", "natMap: Java would map addresses"},
		{"sentinelServersConfig: {natMapper: !<org.redisson.config.HostNatMapper> {}}", "natMapper: Java would map addresses"},
		{"SINGLE\nsslCiphers: [x]", "sslCiphers: Go chooses the ciphers"},
		{"SINGLE\nsslTrustManagerFactory: x", "Java code"},
		{"SINGLE\nsslKeyManagerFactory: x", "Java code"},
		{"SINGLE\nholdfast: {renewEvery: 5}", "renewEvery: must be a positive duration"},
		{"SINGLE\nholdfast: {pollInterval: 0s}", "pollInterval: must be"},
		{"SINGLE\nholdfast: {handoffs: 0}", "handoffs: must not be 0"},
		{"SINGLE\nholdfast: {handoffs: -2}", "handoffs: must be"},
		{"SINGLE\nholdfast: {replication: sync}", "replication: must be async, acked or strict"},
		{"SINGLE\nholdfast: {replication: strict}", "add replicas"},
		{"SINGLE\nholdfast: {replication: acked, replicas: 1}", "applies only to replication: strict"},
		{"SINGLE\nholdfast: {replicas: 0}", "replicas: must be a positive number"},
		{"SINGLE\nholdfast: {watchdogTimeout: 1s}", "unknown setting in section holdfast"},
		{"SINGLE\nholdfast: {renewevery: 1s}", "did you mean renewEvery?"},
		{"SINGLE\nholdfast: {tls: {}}", "the addresses do not use TLS"},
		{"SINGLE\nholdfast: {tls: {cafile: x}}", "unknown setting in section holdfast.tls"},
		{"clusterServersConfig: {nodeAddresses: 'redis://h:1'}\ncheckLockSyncedSlaves: false\nholdfast: {replication: acked}", "line 2: checkLockSyncedSlaves: contradicts"},
		{"clusterServersConfig: {nodeAddresses: 'redis://h:1'}\ncheckLockSyncedSlaves: true\nholdfast: {replication: async}", "line 2: checkLockSyncedSlaves: contradicts"},
		{"clusterServersConfig: {nodeAddresses: 'redis://h:1', shardedSubscriptionMode: maybe}", "must be AUTO, ON or OFF"},
	} {
		s, err := parse(test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.text, err, test.want)
			continue
		}
		if strings.Contains(strings.ToLower(err.Error()), "sesame") {
			t.Errorf("%s: the error repeats a value: %v", test.text, err)
		}
		if !reflect.DeepEqual(s, Settings{}) {
			t.Errorf("%s: %+v beside the error", test.text, s)
		}
	}
}

// Whatever a file holds, it is read or refused, and no error repeats a value.
func FuzzParse(f *testing.F) {
	const secret = "sesame/open"
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(strings.ReplaceAll(string(text), "hunter2", secret))
	}
	for _, s := range []string{
		"a: &a [*a]", "&a {b: *a}", "password: *sesame/open", "password: ${X}", "<<: *x", "password: !<sesame/open> x", "singleServerConfig: &s\n  address: *s",
		"singleServerConfig: {address: 'redis://:sesame/open@h:1'}", "singleServerConfig: {address: 'redis://h:1', retryDelay: &a {class: *a}}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := Parse([]byte(text), environment)
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error repeats a value: %v", err)
		}
	})
}
