package redistest

import (
	"slices"
	"testing"
)

func TestMonitor(t *testing.T) {
	t.Parallel()
	s := Start(t)
	var seen []string
	stop := s.Monitor(t, func(command string) { seen = append(seen, command) })
	const value = "a \"b\" \\c ] \\\x00\xff\x7f\r\n\t\a\b~"
	s.Do(t, "EVAL", "return redis.call('set', KEYS[1], ARGV[1])", "1", "key", value)
	s.Do(t, "GET", "key")
	stop()
	for _, want := range []string{Printed("set", "key", value), Printed("GET", "key")} {
		if !slices.Contains(seen, want) {
			t.Errorf("%q was not seen in %q", want, seen)
		}
	}
	if got := Printed("set", value); got != "set a b c ] x00xffx7frntab~" {
		t.Errorf("%q is printed as %q", value, got)
	}
}
