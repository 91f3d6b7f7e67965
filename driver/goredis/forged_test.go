package goredis_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// A forged message on a subscription costs the connection, not the process.
// Lengths that no memory has room for are left out: go-redis makes them.
func TestForgedMessages(t *testing.T) {
	t.Parallel()
	for name, forged := range drivertest.Forgeries() {
		if strings.HasPrefix(name, "large") || strings.HasPrefix(name, "deep") || strings.HasPrefix(name, "endless") {
			continue
		}
		f := drivertest.NewForger(t, false, "SUBSCRIBE", forged)
		f.Mute = strings.HasPrefix(name, "half")
		d := connect(t, single(f.Addr().String()))
		h := newEvents()
		l := d.Listen(h)
		f.Arm(true)
		l.Subscribe("c")
		if forged != "" && !f.Mute {
			eventually(t, soon, name+": it is forged", func() bool { return f.Forged() > 0 })
		}
		f.Arm(false)
		l.Subscribe("d")
		eventually(t, soon, name+": a channel is confirmed again", func() bool { return h.seen("+d") > 0 })
		_ = l.Close()
		_ = d.Close()
	}
}
