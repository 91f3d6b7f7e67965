package driver

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// Facts contains information about one server.
type Facts struct {
	Node string // the node, as in Place
	Err  error  // the error if the server did not answer; then nothing else is known

	Version  string // the Redis version, such as "7.0.15", or the Redis version that the server is compatible with
	RunID    string // changes when the server process restarts
	ReplID   string // changes when a replica is promoted
	Role     string // "master" or "slave"
	Replicas int    // the number of connected replicas that are in sync
	Cluster  bool
	Uptime   time.Duration
	Database int // the database that scripts run in

	// Clock is the difference between the server's clock and the local clock.
	// It is positive if the server's clock is ahead. The error is at most half
	// of the round-trip time.
	Clock time.Duration

	// Info contains all fields of the reply of INFO. Settings contains the
	// settings of SettingNames. If the server does not show its settings,
	// SettingsErr is the reason.
	Info        map[string]string
	Settings    map[string]string
	SettingsErr error
}

// Release returns the version for display: Version, or for example "Valkey
// 8.0.1".
func (f Facts) Release() string {
	for _, s := range systems {
		if v := f.Info[s.field]; v != "" {
			return s.name + " " + v
		}
	}
	return f.Version
}

// ReplicaOf returns the address of the master if the server is a replica that refuses
// writes, and "" otherwise.
func (f Facts) ReplicaOf() string {
	if f.Role != "slave" || f.Info["slave_read_only"] == "0" {
		return ""
	}
	if f.Info["master_host"] == "" {
		return "another server"
	}
	return clip(net.JoinHostPort(f.Info["master_host"], f.Info["master_port"]))
}

// Mode returns how the server runs: "standalone", "sentinel" or "cluster".
func (f Facts) Mode() string { return cmp.Or(f.Info["redis_mode"], f.Info["server_mode"]) }

// FactsAt returns the facts of the node that has a key.
func FactsAt(ctx context.Context, d Driver, key string) (Facts, error) {
	if facts := d.Facts(ctx, d.Place(key).Node); len(facts) == 1 {
		return facts[0], facts[0].Err
	}
	return Facts{}, Unsent(errors.New("no server is known for this key"))
}

// SettingNames lists the settings in [Facts].Settings.
var SettingNames = []string{
	"notify-keyspace-events", "maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save",
	"min-replicas-to-write", "min-replicas-max-lag", "cluster-node-timeout", "cluster-require-full-coverage",
}

// Upper bounds for numbers in INFO. A wrong number from a server must not cause
// unbounded work.
const (
	maxReplicas = 10_000
	maxUptime   = math.MaxInt32 * time.Second
)

// NewFacts returns the facts from a reply of the command INFO.
func NewFacts(info string) Facts {
	f := Facts{Info: make(map[string]string)}
	for line := range strings.Lines(info) {
		if k, v, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			f.Info[k] = v
		}
	}
	number := func(name string, most int) int {
		n, _ := strconv.Atoi(f.Info[name])
		return min(max(n, 0), most)
	}
	f.Version = f.Info["redis_version"]
	f.RunID = f.Info["run_id"]
	f.ReplID = f.Info["master_replid"]
	f.Role = f.Info["role"]
	f.Replicas = number("connected_slaves", maxReplicas)
	for i := range f.Replicas { // a replica that is not in sync does not acknowledge
		state, ok := f.Info["slave"+strconv.Itoa(i)]
		if !ok {
			break // some servers do not list their replicas
		}
		if !strings.Contains(state, "state=online") {
			f.Replicas--
		}
	}
	f.Cluster = number("cluster_enabled", 1) == 1
	f.Uptime = time.Duration(number("uptime_in_seconds", int(maxUptime/time.Second))) * time.Second
	return f
}
