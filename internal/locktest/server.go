package locktest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Calls returns how often the server ran a command since the statistics were
// reset.
func Calls(tb testing.TB, s *redistest.Server, command string) int {
	var n int
	info := s.Do(tb, "INFO", "commandstats").(string)
	for i := range len(info) {
		if _, err := fmt.Sscanf(info[i:], "cmdstat_"+command+":calls=%d", &n); err == nil {
			return n
		}
	}
	return 0
}

// Executed returns how many commands the server has run, scripts and what they
// consist of.
func Executed(t *testing.T, s *redistest.Server) (scripts, all int) {
	t.Helper()
	text, _ := s.Do(t, "INFO", "commandstats").(string)
	for line := range strings.SplitSeq(text, "\r\n") {
		name, stats, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		number, _, _ := strings.Cut(stats, ",")
		n, _ := strconv.Atoi(number)
		switch name {
		case "info", "config|resetstat", "llen", "exists":
			continue // our own
		case "evalsha", "eval":
			scripts += n
		}
		all += n
	}
	return scripts, all
}

// ServerMillis is the server's clock in milliseconds.
func ServerMillis(tb testing.TB, s *redistest.Server) int64 {
	tb.Helper()
	return s.Int(tb, "EVAL", "local t = redis.call('time') return t[1] * 1000 + math.floor(t[2] / 1000)", "0")
}
