package redistest

import (
	"slices"
	"testing"
)

func TestMonitor(t *testing.T) {
	t.Parallel()
	s := Start(t)
	var seen [][]string
	stop := s.Monitor(t, func(command []string) { seen = append(seen, command) })
	const value = "a \"b\" ] \x00\xff\r\n"
	s.Do(t, "EVAL", "return redis.call('set', KEYS[1], ARGV[1])", "1", "key", value)
	s.Do(t, "GET", "key")
	stop()
	for _, want := range [][]string{{"set", "key", value}, {"GET", "key"}} {
		if !slices.ContainsFunc(seen, func(c []string) bool { return slices.Equal(c, want) }) {
			t.Errorf("%q was not seen in %q", want, seen)
		}
	}
}
