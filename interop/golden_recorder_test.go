package interop_test

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A recorder records, step by step, the state of a server that only one client uses: all keys
// with their types, contents and TTLs, and the published messages. Values that differ between
// runs are replaced (aliases).
type recorder struct {
	server  *redistest.Server
	watch   *monitor
	aliases *aliases
}

func newRecorder(tb testing.TB) *recorder {
	s := redistest.Start(tb)
	return &recorder{server: s, watch: newMonitor(tb, s), aliases: newAliases()}
}

// step returns the changes since the last step: a line for each message, for each string that
// was created and deleted, and for each existing key. The answer of the step comes first, if it
// has one.
func (r *recorder) step(tb testing.TB, answer any) []string {
	tb.Helper()
	r.settle(tb)
	commands := r.watch.commands(tb, r.server)
	keys := r.server.Keys(tb)
	var lines []string
	if answer != nil {
		lines = append(lines, fmt.Sprint("answer ", answer))
	}
	for i, c := range commands {
		switch strings.ToUpper(c[0]) {
		case "PUBLISH":
			lines = append(lines, fmt.Sprintf("publish %s %s", c[1], c[2]))
		case "SET":
			deleted := func(d []string) bool { return strings.EqualFold(d[0], "DEL") && d[1] == c[1] }
			if !slices.Contains(keys, c[1]) && slices.ContainsFunc(commands[i:], deleted) {
				lines = append(lines, fmt.Sprintf("passing %s string %s%s", c[1], c[2], period(c[3:])))
			}
		}
	}
	var entries []entry
	var lasting []string
	for _, k := range keys {
		e := r.entry(tb, k)
		entries = append(entries, e)
		lasting = append(lasting, e.line(strings.Clone))
	}
	r.aliases.step(commands, lines, lasting)
	for i := range lines {
		lines[i] = r.aliases.replace(lines[i])
	}
	for i, e := range entries {
		lasting[i] = e.line(r.aliases.replace)
	}
	slices.Sort(lasting) // by the aliases, so that the order is the same in each run
	return append(lines, lasting...)
}

// settle waits until Redisson has deleted the latch of an unlock, which it does after its
// answer. If it does not delete it, the latch is recorded.
func (r *recorder) settle(tb testing.TB) {
	tb.Helper()
	left := func(k string) bool { return strings.HasPrefix(k, "redisson_unlock_latch:") }
	redistest.Poll(15*time.Second, func() bool { return !slices.ContainsFunc(r.server.Keys(tb), left) })
}

// An entry is a key with its contents.
type entry struct {
	key, kind, end string
	content        []string
}

// line returns the entry with aliases. Unordered contents are sorted by the aliases.
func (e entry) line(rename func(string) string) string {
	var content []string
	for _, c := range e.content {
		content = append(content, rename(c))
	}
	if e.kind == "hash" || e.kind == "zset" {
		slices.Sort(content)
	}
	return fmt.Sprintf("key %s %s %s%s", rename(e.key), e.kind, strings.Join(content, " "), e.end)
}

func (r *recorder) entry(tb testing.TB, k string) entry {
	tb.Helper()
	e := entry{key: k}
	e.kind, _ = r.server.Do(tb, "TYPE", k).(string)
	switch e.kind {
	case "string":
		s, _ := r.server.Do(tb, "GET", k).(string)
		e.content = []string{s}
	case "list":
		e.content = r.server.Strings(tb, "LRANGE", k, "0", "-1")
	case "hash":
		e.content = pairs(r.server.Strings(tb, "HGETALL", k), "=")
	case "zset":
		members := r.server.Strings(tb, "ZRANGE", k, "0", "-1", "WITHSCORES")
		for i := 1; i < len(members); i += 2 {
			members[i-1] = member(members[i-1])
			members[i] = r.aliases.score(k+members[i-1], members[i], r.now(tb))
		}
		e.content = pairs(members, "@")
	default:
		tb.Fatalf("%s is a %s", k, e.kind)
	}
	if at := r.server.Int(tb, "PEXPIRETIME", k); at >= 0 {
		e.end = " for " + r.aliases.ahead(k, at, r.now(tb))
	}
	return e
}

// now returns the server's time in ms of the epoch.
func (r *recorder) now(tb testing.TB) int64 {
	tb.Helper()
	t := r.server.Strings(tb, "TIME")
	sec, _ := strconv.ParseInt(t[0], 10, 64)
	micros, _ := strconv.ParseInt(t[1], 10, 64)
	return sec*1000 + micros/1000
}

func pairs(list []string, sign string) (joined []string) {
	for i := 0; i+1 < len(list); i += 2 {
		joined = append(joined, list[i]+sign+list[i+1])
	}
	return joined
}

// period returns the TTL that a SET command gives a string.
func period(options []string) string {
	for i := 0; i+1 < len(options); i++ {
		if strings.EqualFold(options[i], "PX") {
			ms, _ := strconv.ParseInt(options[i+1], 10, 64)
			return " for " + ttlClass(ms)
		}
	}
	return ""
}

// A monitor reads all commands that a server executes, including those of scripts. Unlike a
// subscriber it does not change the replies of PUBLISH.
type monitor struct {
	conn  net.Conn
	lines *bufio.Reader
	marks int
}

func newMonitor(tb testing.TB, s *redistest.Server) *monitor {
	tb.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		tb.Fatal(err)
	}
	m := &monitor{conn: conn, lines: bufio.NewReader(conn)}
	m.line(tb) // +OK
	return m
}

// commands returns the commands since the last call.
func (m *monitor) commands(tb testing.TB, s *redistest.Server) (commands [][]string) {
	tb.Helper()
	m.marks++
	mark := fmt.Sprint("mark ", m.marks)
	s.Do(tb, "ECHO", mark)
	for {
		// A line has a time, the client, and each word in quotes.
		_, rest, _ := strings.Cut(m.line(tb), "] ")
		var words []string
		for rest != "" {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				tb.Fatalf("monitor: %q: %v", rest, err)
			}
			word, err := strconv.Unquote(quoted)
			if err != nil {
				tb.Fatalf("monitor: %q: %v", quoted, err)
			}
			words = append(words, word)
			rest = strings.TrimPrefix(rest[len(quoted):], " ")
		}
		if len(words) == 2 && words[1] == mark {
			return commands
		}
		if len(words) > 0 {
			commands = append(commands, words)
		}
	}
}

func (m *monitor) line(tb testing.TB) string {
	tb.Helper()
	_ = m.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	line, err := m.lines.ReadString('\n')
	if err != nil {
		tb.Fatal("monitor: ", err)
	}
	return strings.TrimRight(line, "\r\n")
}
