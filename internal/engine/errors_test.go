package engine

import (
	"strings"
	"testing"
	"time"
)

// The times in errors are rounded.
func TestBusyRounds(t *testing.T) {
	for ttl, want := range map[time.Duration]string{
		18_936_975_170 * time.Nanosecond:    " 18.9s",
		3_599_381_239_745 * time.Nanosecond: " 59m59s",
		12_345_678 * time.Nanosecond:        " 12ms",
	} {
		for _, b := range []Busy{{}, {Local: true}, {Young: true}, {Why: "why"}, {Key: "key"}, {Holder: "holder"}} {
			b.TTL = ttl
			if text := b.Error(); !strings.Contains(text+" ", want+" ") {
				t.Errorf("%q, want %q", text, want)
			}
		}
	}
}
