package memory

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"
)

var serverCommands = map[string]command{
	"time": {0, 0, func(t *tx, _ []string) (any, error) {
		return []any{fmt.Sprint(t.micros / 1e6), fmt.Sprint(t.micros % 1e6)}, nil
	}},
	"ping":     {0, 1, ping},
	"echo":     {1, 1, func(_ *tx, a []string) (any, error) { return a[0], nil }},
	"info":     {0, -1, func(t *tx, a []string) (any, error) { return t.s.info(t.now, a...), nil }},
	"wait":     {2, 2, func(t *tx, _ []string) (any, error) { return int64(t.s.replicas), nil }},
	"select":   {1, 1, selectDatabase},
	"publish":  {2, 2, func(t *tx, a []string) (any, error) { return t.publish(a[0], a[1], false), nil }},
	"spublish": {2, 2, func(t *tx, a []string) (any, error) { return t.publish(a[0], a[1], true), nil }},
	"pubsub":   {1, -1, pubsub},
	"config":   {1, -1, config},
}

func ping(_ *tx, args []string) (any, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	return status("PONG"), nil
}

// selectDatabase changes the database of the rest of a script or connection.
func selectDatabase(t *tx, args []string) (any, error) {
	other, err := t.in(args[0])
	if err != nil {
		return nil, err
	}
	t.db = other.db
	return status("OK"), nil
}

func pubsub(t *tx, args []string) (any, error) {
	if words(args[0], "CHANNELS", "SHARDCHANNELS") {
		return texts(t.s.channels(strings.Join(args[1:], ""), words(args[0], "SHARDCHANNELS"))), nil
	}
	sharded := words(args[0], "SHARDNUMSUB")
	if !sharded && !words(args[0], "NUMSUB") {
		return nil, failure(fmt.Sprintf("ERR unknown subcommand '%.128s'. Try PUBSUB HELP.", args[0]))
	}
	var all []any
	for _, channel := range args[1:] {
		all = append(all, channel, int64(len(t.s.hearers(channel, sharded))))
	}
	return all, nil
}

// settings are those that a client asks for. Nothing is persisted, and nothing evicted.
var settings = map[string]string{
	"notify-keyspace-events": "Kgx", "maxmemory": "0", "maxmemory-policy": "noeviction",
	"appendonly": "no", "appendfsync": "everysec", "save": "",
	"min-replicas-to-write": "0", "min-replicas-max-lag": "10",
}

func config(t *tx, args []string) (any, error) {
	switch {
	case words(args[0], "GET"):
		all := pairs{}
		for name, value := range settings {
			for _, pattern := range args[1:] {
				if t.s.meter.matches(strings.ToLower(pattern), name) {
					all = append(all, name, value)
					break
				}
			}
		}
		return all, nil
	case words(args[0], "RESETSTAT"):
		return status("OK"), nil
	case len(args) == 3 && words(args[0], "SET") && words(args[1], "MAXMEMORY"):
		t.s.full = args[2] != "0"
		return status("OK"), nil
	default:
		return nil, failure("ERR this server has no settings that can be changed")
	}
}

// info returns what INFO returns. The sections are ignored, except commandstats.
func (s *Server) info(now int64, sections ...string) string {
	if len(sections) == 1 && words(sections[0], "COMMANDSTATS") {
		lines := []string{"# Commandstats"}
		for name, n := range s.calls {
			lines = append(lines, fmt.Sprintf("cmdstat_%s:calls=%d", name, n))
		}
		return strings.Join(append(lines, ""), "\r\n")
	}
	id := func(n uint64) string { return sha1Hex(fmt.Sprint(s.id, n)) }
	return strings.Join([]string{
		"# Server", "redis_version:" + serverVersion, Field + ":1", "redis_mode:standalone", fmt.Sprint("process_id:", os.Getpid()), "run_id:" + id(0),
		fmt.Sprint("uptime_in_seconds:", max(now-s.began, 0)/1000),
		"# Replication", "role:master", fmt.Sprint("connected_slaves:", s.replicas), "master_replid:" + id(s.term),
		"# Cluster", "cluster_enabled:0", "",
	}, "\r\n")
}

// serverVersion is the version of Redis whose behaviour the server has.
const serverVersion = "7.2.0"

func sha1Hex(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Field is a field of the reply of INFO that other servers do not have.
const Field = "holdfast_memory"

// clockNow returns the time of the server.
func (s *Server) clockNow() time.Time { return time.Now().Add(s.offset) }
