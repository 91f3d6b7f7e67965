package config

import (
	"maps"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast/driver/rueidis"
)

// Redisson's default classes, as they appear in a configuration that Redisson has
// written.
var (
	plainNames       = []string{"org.redisson.api.DefaultNameMapper", "org.redisson.config.DefaultNameMapper"}
	plainCommands    = []string{"org.redisson.config.DefaultCommandMapper"}
	plainCredentials = []string{"org.redisson.client.DefaultCredentialsResolver"}
	plainNat         = []string{"org.redisson.api.DefaultNatMapper", "org.redisson.config.DefaultNatMapper"}
	plainHook        = []string{"org.redisson.client.DefaultNettyHook"}
)

// ignored returns rules for keys that have no effect.
func ignored(keys ...string) map[string]rule {
	rules := make(map[string]rule)
	for _, key := range keys {
		rules[key] = rule{}
	}
	return rules
}

func join(all ...map[string]rule) map[string]rule {
	rules := make(map[string]rule)
	for _, some := range all {
		maps.Copy(rules, some)
	}
	return rules
}

func servers(r *reader) *rueidis.Config { return &r.s.Servers }

func secret(field func(*reader) *rueidis.Secret) rule {
	return str(func(r *reader) *string { return (*string)(field(r)) })
}

// common returns the rules for keys at the top of a file, which older files
// have in sections.
func common() map[string]rule {
	return join(map[string]rule{
		"username": str(func(r *reader) *string { return &servers(r).Username }),
		"password": secret(func(r *reader) *rueidis.Secret { return &servers(r).Password }),
		"nameMapper": {read: func(r *reader, _ string, n *yaml.Node) error {
			r.s.Mapper = Mapper{n.Line, !slices.Contains(plainNames, class(n))}
			return nil
		}},
		"commandMapper": {
			refuse: "renamed commands are not supported: remove this key if the server uses the standard names",
			unless: plainCommands,
		},
		"credentialsResolver": {refuse: "it is Java code, which cannot run here: set username and password, for example from ${VARIABLES}, or call holdfast.New with a driver that has Config.Credentials", unless: plainCredentials},

		"sslVerificationMode": choice("STRICT, CA_ONLY or NONE", map[string]func(*reader){
			"STRICT":  func(r *reader) { r.verification = "STRICT" },
			"CA_ONLY": func(r *reader) { r.verification = "CA_ONLY" },
			"NONE":    func(r *reader) { r.verification = "NONE" },
		}),
		"sslProtocols":           {read: readProtocols},
		"sslTruststore":          {read: func(*reader, string, *yaml.Node) error { return nil }}, // see finishTLS
		"sslKeystore":            {read: func(*reader, string, *yaml.Node) error { return nil }},
		"sslCiphers":             {refuse: "Go chooses the ciphers: remove this key"},
		"sslTrustManagerFactory": {refuse: "it is Java code, which cannot run here: set holdfast.tls.ca to the file of the certificate authorities"},
		"sslKeyManagerFactory":   {refuse: "it is Java code, which cannot run here: set holdfast.tls.cert and holdfast.tls.key to the files of the certificate"},
	}, ignored("sslProvider", "sslKeystoreType", "sslTruststorePassword", "sslKeystorePassword",
		"tcpKeepAlive", "tcpKeepAliveCount", "tcpKeepAliveIdle", "tcpKeepAliveInterval", "tcpUserTimeout", "tcpNoDelay"))
}

// connection returns the rules for keys of all sections with servers.
func connection() map[string]rule {
	return join(common(), map[string]rule{
		"timeout":        millis(func(r *reader) *time.Duration { return &servers(r).Timeout }),
		"connectTimeout": millis(func(r *reader) *time.Duration { return &servers(r).DialTimeout }),
		"clientName":     str(func(r *reader) *string { return &servers(r).ClientName }),
		"database":       integer(0, "the number of a database, such as 0", func(r *reader) *int { return &r.database }),
		"retryAttempts": integer(0, "a number such as 4", func(r *reader) *int {
			r.attempts = new(int)
			return r.attempts
		}),
		"retryDelay":    {read: readDelay},
		"retryInterval": millis(func(r *reader) *time.Duration { return &r.interval }),
		"sslEnableEndpointIdentification": boolean(func(r *reader, on bool) {
			r.verification = map[bool]string{true: "STRICT", false: "NONE"}[on]
		}),
	}, ignored("idleConnectionTimeout", "pingConnectionInterval", "pingTimeout", "reconnectionDelay", "reconnectionTimeout", "failedAttempts", "keepAlive",
		"subscriptionTimeout", "subscriptionsPerConnection", "subscriptionConnectionMinimumIdleSize", "subscriptionConnectionPoolSize",
		"dnsMonitoring", "dnsMonitoringInterval", "dnsMonitoringTimes"))
}

// replicas returns the rules for keys of all sections with more than one
// server.
func replicas() map[string]rule {
	return join(connection(), ignored("readMode", "subscriptionMode", "loadBalancer", "fallbackLoadingToMaster",
		"slaveConnectionMinimumIdleSize", "slaveConnectionPoolSize", "masterConnectionMinimumIdleSize", "masterConnectionPoolSize",
		"failedSlaveReconnectionInterval", "failedSlaveCheckInterval", "failedSlaveNodeDetector"))
}

// scanned returns the rules for keys of all sections whose servers are
// monitored.
func scanned() map[string]rule {
	nat := "Java would map addresses and Go would not: make the servers announce reachable addresses, and remove this key"
	return join(replicas(), map[string]rule{
		"scanInterval": millis(func(r *reader) *time.Duration { return &servers(r).ScanInterval }),
		"natMapper":    {refuse: nat, unless: plainNat},
		"natMap":       {refuse: nat},
	})
}

// sections returns the rules for each section with servers.
func sections() map[string]map[string]rule {
	return map[string]map[string]rule{
		"singleServerConfig": join(connection(), map[string]rule{"address": {read: readAddresses}},
			ignored("connectionMinimumIdleSize", "connectionPoolSize")),
		"masterSlaveServersConfig": join(replicas(), map[string]rule{"masterAddress": {read: readAddresses}, "slaveAddresses": {read: readAddresses}}),
		"replicatedServersConfig":  join(scanned(), map[string]rule{"nodeAddresses": {read: readAddresses}}, ignored("monitorIPChanges")),
		"sentinelServersConfig": join(scanned(), map[string]rule{
			"sentinelAddresses": {read: readAddresses},
			"masterName":        str(func(r *reader) *string { return &servers(r).MasterName }),
			"sentinelUsername":  str(func(r *reader) *string { return &servers(r).SentinelUsername }),
			"sentinelPassword":  secret(func(r *reader) *rueidis.Secret { return &servers(r).SentinelPassword }),
		}, ignored("checkSentinelsList", "checkSlaveStatusWithSyncing", "sentinelsDiscovery")),
		"clusterServersConfig": join(scanned(), map[string]rule{
			"nodeAddresses": {read: readAddresses},
			"shardedSubscriptionMode": choice("AUTO, ON or OFF", map[string]func(*reader){
				"AUTO": func(r *reader) { servers(r).Sharded = rueidis.ShardedAuto },
				"ON":   func(r *reader) { servers(r).Sharded = rueidis.ShardedOn },
				"OFF":  func(r *reader) { servers(r).Sharded = rueidis.ShardedOff },
			}),
		}, ignored("checkSlotsCoverage", "checkMasterLinkStatus", "slots")),
	}
}

// own returns the rules for the section holdfast. Redisson refuses a file with this
// section, so a file for both does not have it.
func own() map[string]rule {
	replication := func(mode string) func(*reader) { return func(r *reader) { r.s.Replication = mode } }
	return map[string]rule{
		"renewEvery":   duration(func(r *reader) *time.Duration { return &r.s.RenewEvery }),
		"pollInterval": duration(func(r *reader) *time.Duration { return &r.s.PollInterval }),
		"retryTimeout": duration(func(r *reader) *time.Duration { return &r.s.RetryTimeout }),
		"handoffs":     {read: readHandoffs},
		"handoffTime":  duration(func(r *reader) *time.Duration { return &r.s.HandoffTime }),
		"wakeAll":      boolean(func(r *reader, on bool) { r.s.WakeAll = on }),
		"maxQueue":     integer(1, "a positive number", func(r *reader) *int { return &r.s.MaxQueue }),
		"namePrefix":   str(func(r *reader) *string { return &r.s.NamePrefix }),
		"label":        str(func(r *reader) *string { return &r.s.Label }),
		"anonymous":    boolean(func(r *reader, on bool) { r.s.Anonymous = on }),
		"deadlocks": choice("report, end or ignore", map[string]func(*reader){
			"REPORT": func(r *reader) { r.s.Deadlocks = "" },
			"END":    func(r *reader) { r.s.Deadlocks = "end" },
			"IGNORE": func(r *reader) { r.s.Deadlocks = "ignore" },
		}),
		"replication": choice("async, acked or strict", map[string]func(*reader){
			"ASYNC": replication("async"), "ACKED": replication("acked"), "STRICT": replication("strict"),
		}),
		"replicas":  integer(1, "a positive number", func(r *reader) *int { return &r.s.Replicas }),
		"clockSkew": duration(func(r *reader) *time.Duration { return &r.s.ClockSkew }),
		"tls": {read: func(r *reader, _ string, n *yaml.Node) error {
			r.files.line = n.Line
			return r.mapping(n, "holdfast.tls", ownTLS())
		}},
	}
}

func ownTLS() map[string]rule {
	return map[string]rule{
		"ca":         str(func(r *reader) *string { return &r.files.ca }),
		"cert":       str(func(r *reader) *string { return &r.files.cert }),
		"key":        str(func(r *reader) *string { return &r.files.key }),
		"serverName": str(func(r *reader) *string { return &r.files.serverName }),
	}
}

func readHandoffs(r *reader, key string, n *yaml.Node) error {
	v, err := r.number(key, n, -1, 1<<30, "a number such as 64, or -1 for never")
	if err == nil && v == 0 {
		return wrong(n.Line, key, "must not be 0: write -1 for never, or omit it for the default")
	}
	r.s.Handoffs = int(v)
	return err
}

// topLevel returns the rules for keys at the top of a file.
func topLevel() map[string]rule {
	rules := join(common(), map[string]rule{
		"lockWatchdogTimeout":   millis(func(r *reader) *time.Duration { return &r.s.WatchdogTimeout }),
		"checkLockSyncedSlaves": boolean(func(r *reader, on bool) { r.synced = &on }),
		"slavesSyncTimeout":     millis(func(r *reader) *time.Duration { return &r.s.SyncTimeout }),
		"protocol": choice("RESP2 or RESP3", map[string]func(*reader){
			"RESP2": func(r *reader) { servers(r).RESP2 = true },
			"RESP3": func(r *reader) { servers(r).RESP2 = false },
		}),
		"nettyHook": {refuse: "it is Java code, which cannot run here: remove this key", unless: plainHook},
		"secretKey": {refuse: "encrypted passwords are not supported: use ${VARIABLES} from the environment"},
		"holdfast": {read: func(r *reader, key string, n *yaml.Node) error {
			return r.mapping(n, key, own())
		}},
	}, ignored("threads", "nettyThreads", "nettyExecutor", "executor", "eventLoopGroup", "transportMode", "useLinuxNativeEpoll", "codec", "decodeInExecutor",
		"useThreadClassLoader", "referenceEnabled", "redissonReferenceEnabled", "connectionListener", "addressResolverGroupFactory", "lazyInitialization",
		"lockWatchdogBatchSize", "fairLockWaitTimeout", "keepPubSubOrder", "useScriptCache", "reliableTopicWatchdogTimeout",
		"minCleanUpDelay", "maxCleanUpDelay", "cleanUpKeysAmount", "valkeyCapabilities",
		"registrationKey", "meterMode", "meterRegistryProvider", "performanceMode"))
	for name, keys := range sections() {
		rules[name] = rule{read: func(r *reader, key string, n *yaml.Node) error {
			if r.section != "" {
				return wrong(n.Line, key, "the servers are already configured in %s: keep one of the two sections", r.section)
			}
			r.section = name
			return r.mapping(n, key, keys)
		}}
	}
	for _, name := range []string{"proxyServersConfig", "multiClusterServersConfig", "multiSentinelServersConfig"} {
		rules[name] = rule{refuse: "this section exists only in Redisson PRO: use the section for a master and its replicas, for sentinels, or for a cluster"}
	}
	rules["elasticacheServersConfig"] = rule{refuse: "newer versions of Redisson use the name replicatedServersConfig: rename it"}
	return rules
}

// places returns the rules for all places in a file, by path.
func places() map[string]map[string]rule {
	all := sections()
	all[""], all["holdfast"], all["holdfast.tls"] = topLevel(), own(), ownTLS()
	return all
}
