package driver

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Facts are what a driver knows about one server.
type Facts struct {
	Node string // as in Place
	Err  error  // it did not answer, and nothing else is known

	Version  string // of Redis, "7.0.15"; of others, that of the Redis that they are compatible with
	RunID    string // changes when the server process does
	ReplID   string // changes when a replica was promoted
	Role     string // "master" or "slave", in Redis's words
	Replicas int    // connected replicas that are in sync
	Cluster  bool
	Uptime   time.Duration
	Database int // that scripts run in

	// Clock is how far the server's clock is ahead of the one here, give or
	// take half the time that the question took.
	Clock time.Duration

	// Info is all that the server says of itself, and Settings the values of
	// the settings that Holdfast cares about: see SettingNames. Where the server will
	// not show its settings, SettingsErr says why.
	Info        map[string]string
	Settings    map[string]string
	SettingsErr error
}

// Release returns the version for people: as in Version, or "Valkey 8.0.1".
func (f Facts) Release() string {
	if v := f.Info["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return f.Version
}

// Mode returns how the server runs: "standalone", "sentinel" or "cluster".
func (f Facts) Mode() string { return cmp.Or(f.Info["redis_mode"], f.Info["server_mode"]) }

// FactsAt returns the facts of the node that a key lives on.
func FactsAt(ctx context.Context, d Driver, key string) (Facts, error) {
	if facts := d.Facts(ctx, d.Place(key).Node); len(facts) == 1 {
		return facts[0], facts[0].Err
	}
	return Facts{}, Unsent(errors.New("no server is known for the key now"))
}

// SettingNames lists the settings of a server that [Facts] holds.
var SettingNames = []string{
	"notify-keyspace-events", "maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save",
	"min-replicas-to-write", "min-replicas-max-lag", "cluster-node-timeout", "cluster-require-full-coverage",
}

// What is believed of the numbers in INFO, at most: no work may grow with a
// number that a server makes up.
const (
	maxReplicas = 10_000
	maxUptime   = math.MaxInt32 * time.Second
)

// NewFacts returns the facts in what the command INFO says.
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
	for i := range f.Replicas { // one that has yet to receive everything acknowledges nothing
		state, ok := f.Info["slave"+strconv.Itoa(i)]
		if !ok {
			break // some servers list none
		}
		if !strings.Contains(state, "state=online") {
			f.Replicas--
		}
	}
	f.Cluster = number("cluster_enabled", 1) == 1
	f.Uptime = time.Duration(number("uptime_in_seconds", int(maxUptime/time.Second))) * time.Second
	return f
}
