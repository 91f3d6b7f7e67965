package rueidis_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/rueidis"
)

// A forged reply costs a connection, not the process: the driver goes on when
// the server answers as it should.
func TestForgedReplies(t *testing.T) {
	t.Parallel()
	for _, stage := range []struct {
		at    string
		resp2 bool
	}{{"PING", false}, {"HELLO", false}, {"INFO", false}, {"EVALSHA", false}, {"EVALSHA", true}, {"SUBSCRIBE", false}} {
		t.Run(fmt.Sprint(stage.at, stage.resp2), func(t *testing.T) {
			t.Parallel()
			for name, forged := range drivertest.Forgeries() {
				f := drivertest.NewForger(t, stage.resp2, stage.at, forged)
				f.Mute = strings.HasPrefix(name, "half")
				meetForger(t, name, stage.at, stage.resp2, f)
			}
		})
	}
}

func meetForger(t *testing.T, name, at string, resp2 bool, f *drivertest.Forger) {
	t.Helper()
	c := rueidis.Config{Addr: f.Addr().String(), RESP2: resp2, Timeout: time.Second, DialTimeout: time.Second}
	open := func() (*rueidis.Driver, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return rueidis.Open(ctx, c)
	}
	f.Arm(at == "PING" || at == "HELLO" || at == "INFO")
	d, err := open()
	if f.Arm(false); err != nil {
		d, err = open()
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer d.Close()
	h := newEvents()
	l := d.Listen(h)
	f.Arm(true)
	l.Subscribe("c")
	var calls sync.WaitGroup
	for i := range 6 {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*100*time.Millisecond)
			defer cancel()
			_, _ = d.Do(ctx, addOne("k"))
			d.DoMany(ctx, []driver.Call{addOne("k"), addOne("l")})
			if i == 0 {
				d.Facts(ctx)
			}
		})
	}
	calls.Wait()
	f.Arm(false)
	eventually(t, patience, name+": calls succeed again", func() bool {
		r, err := d.Do(t.Context(), addOne("k"))
		return err == nil && len(r.List) == 3
	})
	l.Subscribe("d")
	h.want(t, "+d")
}
