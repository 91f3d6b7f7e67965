package holdfast_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// One request does not keep the server from all others for long, however many
// were before.
func TestLimiterAfterManyUses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL())
	l := c.RateLimiter("many")
	const rate = 500_000
	if err := l.SetRate(t.Context(), holdfast.Rate{Permits: rate, Per: time.Second}); err != nil {
		t.Fatal(err)
	}
	// As many entries as if each had been taken by itself; not all at once, since
	// a command has ten seconds on a busy machine.
	const step = rate / 20
	for from := 0; from < rate; from += step {
		s.Do(t, "EVAL", `local t = redis.call('time')[1] * 1000 - 5000
for i = ARGV[1] + 1, ARGV[1] + ARGV[2] do redis.call('zadd', KEYS[1], t, struct.pack('Bc0I', 16, string.format('%016d', i), 1)) end
redis.call('set', KEYS[2], 0)`, "2", "{many}:permits", "{many}:value", fmt.Sprint(from), fmt.Sprint(step))
	}
	before := worked(t, s)
	ok, err := l.Allow(t.Context())
	if took := worked(t, s) - before; err != nil || took > 300*time.Millisecond {
		t.Errorf("%v, %v after %v", ok, err, took)
	}
}

// worked returns for how long the server has computed, which is not the time
// that has passed on a busy machine.
func worked(tb testing.TB, s *redistest.Server) time.Duration {
	tb.Helper()
	var sum float64
	for line := range strings.Lines(fmt.Sprint(s.Do(tb, "INFO", "cpu"))) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if key == "used_cpu_user" || key == "used_cpu_sys" {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				tb.Fatal(err)
			}
			sum += n
		}
	}
	return time.Duration(sum * float64(time.Second))
}
