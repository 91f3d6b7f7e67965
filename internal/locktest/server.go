package locktest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Calls returns how often the server has run a command since its statistics were
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

// Executed returns how many scripts the server has run, and how many commands in
// all, including those in scripts.
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

// ServerTime returns the server's clock in milliseconds.
func ServerTime(tb testing.TB, s *redistest.Server) int64 {
	tb.Helper()
	clock := s.Strings(tb, "TIME")
	sec, err1 := strconv.ParseInt(clock[0], 10, 64)
	usec, err2 := strconv.ParseInt(clock[1], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		tb.Fatal(err)
	}
	return sec*1000 + usec/1000
}

// AwaitVoter waits until a server has been up for longer than d, and votes for locks whose leases
// are no longer than that.
func AwaitVoter(tb testing.TB, s *redistest.Server, d time.Duration) {
	tb.Helper()
	Eventually(tb, d+time.Minute, "the server votes", func() bool {
		up := 0
		_, after, _ := strings.Cut(fmt.Sprint(s.Do(tb, "INFO", "server")), "uptime_in_seconds:")
		if _, err := fmt.Sscan(after, &up); err != nil {
			tb.Fatal(err)
		}
		return time.Duration(up)*time.Second > d
	})
}

// Expiry returns when a key expires, in milliseconds of the server's clock.
func Expiry(tb testing.TB, s *redistest.Server, key string) int64 {
	tb.Helper()
	// Some servers read the clock for every command of a script: both readings
	// have to be of one millisecond.
	return s.Int(tb, "EVAL", `
		local function ms()
			local t = redis.call('time')
			return t[1] * 1000 + math.floor(t[2] / 1000)
		end
		local now, ttl
		repeat now, ttl = ms(), redis.call('pttl', KEYS[1]) until ms() == now
		return now + ttl`, "1", key)
}

// AwaitOlder waits until a key that the server was to keep for d has been there for age.
func AwaitOlder(tb testing.TB, s *redistest.Server, key string, d, age time.Duration) {
	tb.Helper()
	Eventually(tb, age+20*time.Second, fmt.Sprint(key, " is ", age, " old"), func() bool {
		return s.Int(tb, "PTTL", key) <= (d - age).Milliseconds()
	})
}

// WantRenewed waits until all keys of leases have been renewed twice.
func WantRenewed(tb testing.TB, s *redistest.Server, keys ...string) {
	tb.Helper()
	for range 2 {
		before := make([]int64, len(keys))
		for i, key := range keys {
			before[i] = Expiry(tb, s, key)
		}
		for i, key := range keys {
			Eventually(tb, 20*time.Second, key+" is renewed", func() bool { return Expiry(tb, s, key) > before[i] })
		}
	}
}
