package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Open connects to the Redis or Valkey servers of a URL:
//
//	redis://user:password@host:6379/0           a single server; database 0
//	redis://host1:6379,host2:6379,host3:6379/0  a master and its replicas; Open finds the master
//	redis-sentinel://host1:26379,host2/0?master_name=mymaster
//	redis-cluster://host1:6379,host2:6379
//	unix:///run/redis/redis.sock?db=1           a Unix socket
//
// With rediss, rediss-sentinel and rediss-cluster, connections use TLS. The schemes may
// begin with valkey instead of redis, and with valkeys instead of rediss. User,
// password and query are percent-encoded. The query may contain these parameters:
//
//   - db, client_name, protocol (2 or 3);
//   - timeout (of one request, 2s) and dial_timeout (2s);
//   - for TLS: tls_ca, tls_cert, tls_key (files) and tls_server_name;
//   - with several servers: scan_interval (1s), the interval for checking the roles of
//     the servers;
//   - with sentinels: sentinel_username, sentinel_password and sentinel_tls (on or
//     off);
//   - with a cluster: sharded (auto, on or off), whether to use sharded pub/sub.
//
// Open does not change options. It fails with [ErrInvalid] if the URL or the options
// are invalid, with [ErrRefused] if the server rejects the user, has no Lua engine or
// is a proxy ([driver.ErrNoLua], [driver.SystemError]), and with [ErrUnavailable] if
// the server does not answer or is a read-only replica, see [Options].AllowReplica.
// [OpenConfig] reads the same settings from a file.
func Open(ctx context.Context, url string, options *Options) (*Client, error) {
	config, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, &Error{Op: "open", Err: invalid("%w", err)}
	}
	return connect(ctx, config, options.value())
}

// value returns a copy of the options. Those of nil are the defaults.
func (o *Options) value() Options {
	if o == nil {
		return Options{}
	}
	return *o
}

// connect opens the driver and creates the client, for Open and OpenConfig.
func connect(ctx context.Context, config rueidis.Config, o Options) (*Client, error) {
	fail := func(err error) (*Client, error) { return nil, &Error{Op: "open", Err: err} }
	if err := cmp.Or(checkContext(ctx), o.withDefaults().check()); err != nil {
		return fail(err)
	}
	config.RejectReplica = !o.AllowReplica
	d, err := rueidis.Open(ctx, config)
	switch {
	case err == nil:
	case driver.ClassOf(err) == driver.Fatal:
		return fail(fmt.Errorf("%w: %w", ErrRefused, err))
	default:
		return fail(because(ctx, fmt.Errorf("%w: %w", ErrUnavailable, err)))
	}
	// Other errors may pass, or concern only some names.
	if _, err := d.Do(ctx, script.ProbeLua()); errors.Is(err, driver.ErrNoLua) {
		_ = d.Close()
		return fail(fmt.Errorf("%w: %w", ErrRefused, err))
	}
	c, err := New(d, &o)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return c, nil
}

// OpenConfig connects to the servers that a file describes. The file is YAML or JSON
// with Redisson's keys. It has one of the sections singleServerConfig,
// masterSlaveServersConfig, replicatedServersConfig, sentinelServersConfig and
// clusterServersConfig, and may have other settings such as lockWatchdogTimeout.
// ${NAME} and ${NAME:-default} are replaced with environment variables.
//
// The section holdfast has the settings that Redisson lacks. Redisson refuses a file
// with this section: if Java and Go use the same file, pass these settings as options
// instead. Redisson's keys that have no effect in Go are logged. Unknown keys, keys
// that cannot be ignored safely, and a file of more than 1 MiB are errors. The defaults
// are those of [Open] and [Options], not Redisson's. The file docs/configuration.md
// lists all keys.
//
// Options may add settings to the file, but must not contradict it. The errors are
// those of Open. An error about the file contains the line and the key if the key is
// known, but never a value.
func OpenConfig(ctx context.Context, file string, options *Options) (*Client, error) {
	fail := func(err error) (*Client, error) { return nil, &Error{Op: "open", Err: err} }
	o := options.value()
	if strings.Contains(file, "://") { // not repeated in the error: it may contain a password
		return fail(invalid("this is a URL, not a file name: use Open"))
	}
	text, err := readConfig(file)
	if err != nil {
		return fail(invalid("%w", err))
	}
	s, err := config.Parse(text, os.LookupEnv)
	if err != nil {
		return fail(invalid("%s: %w", file, err))
	}
	if err := o.add(s); err != nil {
		return fail(invalid("%s: %w", file, err))
	}
	log := o.withDefaults().Logger // logs on the goroutine of the caller
	o.Logger = log
	if len(s.Ignored) > 0 {
		log.Info("settings in the file have no effect", "file", file, "keys", strings.Join(s.Ignored, " "))
	}
	if s.AnyHost {
		log.Warn(anyHostText, "file", file)
	}
	c, err := connect(ctx, s.Servers, o)
	if err == nil {
		c.anyHost = s.AnyHost
	}
	return c, err
}

// maxConfig is the maximum size of a file with settings, in bytes.
const maxConfig = 1 << 20

// readConfig reads a file with settings. The file may be a pipe, or a device that has no end.
func readConfig(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(text) > maxConfig {
		err = fmt.Errorf("%s: the file has more than %d bytes: name a file with only the settings", file, maxConfig)
	}
	return text, err
}

// add adds the settings of a file to o.
func (o *Options) add(s config.Settings) error {
	if s.Replication == "acked" && o.Replication.Mode != Acked {
		return fmt.Errorf("checkLockSyncedSlaves or holdfast.replication says acked in the file, but Options.Replication is %v: remove one of them", o.Replication.Mode)
	}
	modes := map[string]ReplicationMode{"async": Async, "strict": Strict}
	for _, err := range []error{
		addTo(&o.WatchdogTimeout, s.WatchdogTimeout, "lockWatchdogTimeout", "WatchdogTimeout"),
		addTo(&o.RenewEvery, s.RenewEvery, "holdfast.renewEvery", "RenewEvery"),
		addTo(&o.PollInterval, s.PollInterval, "holdfast.pollInterval", "PollInterval"),
		addTo(&o.RetryTimeout, s.RetryTimeout, "the retry time (holdfast.retryTimeout, or timeout, retryAttempts and retryDelay together)", "RetryTimeout"),
		addTo(&o.Handoffs, s.Handoffs, "holdfast.handoffs", "Handoffs"),
		addTo(&o.HandoffTime, s.HandoffTime, "holdfast.handoffTime", "HandoffTime"),
		addTo(&o.WakeAll, s.WakeAll, "holdfast.wakeAll", "WakeAll"),
		addTo(&o.MaxQueue, s.MaxQueue, "holdfast.maxQueue", "MaxQueue"),
		addTo(&o.NamePrefix, s.NamePrefix, "holdfast.namePrefix", "NamePrefix"),
		addTo(&o.Label, s.Label, "holdfast.label", "Label"),
		addTo(&o.Anonymous, s.Anonymous, "holdfast.anonymous", "Anonymous"),
		addTo(&o.Deadlocks, map[string]DeadlockMode{"end": EndDeadlocks, "ignore": IgnoreDeadlocks}[s.Deadlocks], "holdfast.deadlocks", "Deadlocks"),
		addTo(&o.Replication.Mode, modes[s.Replication], "holdfast.replication or checkLockSyncedSlaves", "Replication.Mode"),
		addTo(&o.Replication.Replicas, s.Replicas, "holdfast.replicas", "Replication.Replicas"),
		addTo(&o.Replication.Timeout, s.SyncTimeout, "slavesSyncTimeout", "Replication.Timeout"),
		addTo(&o.ClockSkew, s.ClockSkew, "holdfast.clockSkew", "ClockSkew"),
	} {
		if err != nil {
			return err
		}
	}
	return s.CheckNames(o.NamePrefix)
}

// addTo sets an option to the value in the file. It returns an error if both
// are set and differ, because a reader of only one of them would be misled.
func addTo[T comparable](option *T, value T, key, name string) error {
	var zero T
	if value == zero || value == *option {
		return nil
	}
	if *option != zero {
		return fmt.Errorf("%s is %v in the file, but Options.%s is %v: remove one of them", key, value, name, *option)
	}
	*option = value
	return nil
}
