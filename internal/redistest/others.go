package redistest

import (
	"fmt"
	"strings"
	"testing"
)

// An Other is a system that answers in the place of a server: its replies by
// command, or by the first word of a command. An empty reply closes the
// connection. Without a reply, PING is answered and other commands are refused.
type Other map[string]string

// InfoReply returns a reply to INFO.
func InfoReply(lines ...string) string {
	text := strings.Join(lines, "\r\n") + "\r\n"
	return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
}

// behind is what a server behind a proxy shows.
var behind = []string{"# Server", "redis_version:7.0.15", "redis_mode:standalone", "run_id:" + strings.Repeat("a", 40), "uptime_in_seconds:1000"}

// Recorded has replies that were recorded from running systems, without fields of
// INFO that do not matter here.
var Recorded = map[string]Other{
	"Predixy 1.0.5": {
		"INFO": InfoReply("# Proxy", "Version:1.0.5", "Name:PredixyTest", "Bind:127.0.0.1:21161", "RedisMode:proxy", "SingleThread:false", "WorkerThreads:1"),
	},
	"Envoy 1.40.0": {
		"HELLO 3": "-NOPROTO unsupported protocol version\r\n",
		"HELLO": "*14\r\n$6\r\nserver\r\n$17\r\nenvoy-redis-proxy\r\n$7\r\nversion\r\n$5\r\n6.0.0\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:0\r\n" +
			"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n",
		"INFO": InfoReply(strings.Split(strings.ReplaceAll(strings.Join(behind, "\n"), "standalone", "cluster"), "\n")...), // without the section Replication
	},
	"Envoy 1.36.2": { // with two servers
		"INFO": "*2\r\n" + InfoReply(append(behind, "role:master")...) + InfoReply(append(behind, "role:master")...),
	},
	"Codis de1ad02": {
		"HELLO 3": "-ERR handle response, backend conn failure, bad resp type <unknown-0x25>\r\n",
		"INFO":    InfoReply(append(behind, "role:master", "maxmemory:0", "aof_enabled:1")...),
		"TIME":    "-ERR handle request, command 'TIME' is not allowed\r\n",
		"CONFIG":  "-ERR handle request, command 'CONFIG' is not allowed\r\n",
	},
	"Twemproxy 0.5.0": {"HELLO": "", "INFO": ""},
	"KeyDB 603ebb2, active-replica yes": {
		"INFO": InfoReply("# Server", "redis_version:255.255.255", "redis_mode:standalone", "run_id:"+strings.Repeat("d", 40), "uptime_in_seconds:1000",
			"# Replication", "role:active-replica", "master_global_link_status:up", "connected_masters:1", "master_link_status:up", "slave_read_only:0", "connected_slaves:1",
			"# KeyDB", "mvcc_depth:0"),
	},
}

// Documented has replies that follow the source of systems. They were never
// compared with running ones.
var Documented = map[string]Other{
	"Dragonfly": {"INFO": InfoReply("# Server", "redis_version:7.4.0", "dragonfly_version:df-v1.40.0", "redis_mode:standalone", "role:master")},
	"Garnet":    {"INFO": InfoReply("# Server", "garnet_version:2.0.0", "server_name:garnet", "run_id:"+strings.Repeat("b", 40), "redis_version:7.4.3", "redis_mode:standalone", "role:master")},
	"Pika":      {"INFO": InfoReply("# Server", "pika_version:4.0.1", "run_id:"+strings.Repeat("c", 40), "role:master")},
	"Kvrocks":   {"INFO": InfoReply("# Server", "version:2.9.0", "kvrocks_version:2.9.0", "redis_version:4.0.0", "redis_mode:standalone", "role:master")},
}

// Play answers as the system does until the test ends. It returns its address.
func (o Other) Play(tb testing.TB) string {
	tb.Helper()
	return Answer(tb, func(words []string) string {
		if reply, ok := o[strings.Join(words, " ")]; ok {
			return reply
		}
		if reply, ok := o[words[0]]; ok {
			return reply
		}
		if words[0] == "PING" {
			return "+PONG\r\n"
		}
		return fmt.Sprintf("-ERR unknown command '%s'\r\n", words[0])
	})
}
