package main_test

import (
	"bufio"
	"net"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// answering starts a server that sends the same text in reply to every command, and returns
// its address. If the text is empty, it accepts connections and is silent.
func answering(tb testing.TB, text string) string {
	tb.Helper()
	return redistest.Accept(tb, func(c net.Conn) {
		for lines := bufio.NewScanner(c); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "*") && text != "" { // the first line of a command
				_, _ = c.Write([]byte(text))
			}
		}
	})
}

// TestServerHint checks that commands ask whether the server is running only if no server has
// answered.
func TestServerHint(t *testing.T) {
	t.Parallel()
	const (
		question = "Is the server running"
		refused  = "redis://127.0.0.1:1" // no server uses this port
	)
	master := redistest.Start(t)
	replica := func(args ...string) string {
		s := redistest.Start(t, args...)
		s.Do(t, "REPLICAOF", "127.0.0.1", "1")
		return s.URL()
	}
	loading := "redis://" + answering(t, "-LOADING Redis is loading the dataset in memory\r\n")
	master.Do(t, "ACL", "SETUSER", "weak", "on", ">secret", "+@connection", "+info")
	try := func(kind string, asks bool, args ...string) {
		t.Run(kind+"/"+args[0], func(t *testing.T) {
			t.Parallel()
			r := execute(t, args...)
			if r.status != 122 || strings.Contains(r.err, question) != asks {
				t.Errorf("status %d, asks %v, want 122 and %v:\n%s", r.status, !asks, asks, r.err)
			}
		})
	}
	for kind, tt := range map[string]struct {
		url  string
		asks bool
	}{
		"refused":    {refused, true},
		"unknown":    {"redis://nosuch.invalid:6379", true},
		"silent":     {"redis://" + answering(t, "") + "?timeout=300ms", true},
		"loading":    {loading, false},
		"replica":    {replica(), false},
		"replicas":   {replica() + "," + strings.TrimPrefix(replica(), "redis://"), false},
		"stale":      {replica("--replica-serve-stale-data", "no"), false},
		"no slots":   {"redis-cluster://" + redistest.Start(t, "--cluster-enabled", "yes").Addr(), false},
		"no master":  {"redis-sentinel://" + master.Addr() + "?master_name=orders", false},
		"no TLS":     {"rediss://" + master.Addr() + "?timeout=300ms", false},
		"not Redis":  {"redis://" + answering(t, "HTTP/1.1 400 Bad Request\r\n\r\n"), false},
		"password":   {"redis://weak:wrong@" + master.Addr(), false},
		"permission": {"redis://weak:secret@" + master.Addr(), false},
	} {
		try(kind, tt.asks, "run", "orders", "--wait", "0", "--url", tt.url, "--", "true")
	}
	for kind, url := range map[string]string{"refused": refused, "loading": loading} {
		for _, args := range [][]string{
			{"ls"}, {"show", "orders"}, {"unlock", "orders", "--force", "--yes"}, {"watch", "--count", "1"}, {"doctor"}, {"dashboard"}, {"bench"}, {"demo"},
		} {
			try(kind, kind == "refused", append(args, "--url", url)...)
		}
	}
}
