package holdfast

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/internal/config"
)

// OpenConfig connects to the servers that a file describes. The file is YAML or
// JSON with Redisson's keys. It has one of the sections singleServerConfig,
// masterSlaveServersConfig, replicatedServersConfig, sentinelServersConfig and
// clusterServersConfig, and may have other settings such as
// lockWatchdogTimeout. ${NAME} and ${NAME:-default} are replaced with
// environment variables.
//
// The section holdfast contains the settings that Redisson does not have.
// Redisson refuses a file with this section. If Java and Go use the same file,
// pass these settings as options instead. Redisson's keys that have no effect in Go are
// logged. Unknown keys, keys that cannot be ignored safely, and a file of more than 1 MiB
// are errors. The defaults are those of [Open] and [Options], not Redisson's. The
// file docs/configuration.md lists all keys.
//
// Options may add settings to the file, but must not contradict it. The errors
// are those of Open. An error about the file contains the line and the key if
// the key is known, but never a value.
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
