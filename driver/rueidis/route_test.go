package rueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Redis does not put brackets around the IPv6 address of a redirection.
func TestRedirectIPv6(t *testing.T) {
	slot, addr, ok := redirect(driver.ServerError("MOVED 3999 ::1:6381"), "[::1]:6380")
	if slot != 3999 || addr != "[::1]:6381" || !ok {
		t.Errorf("sent to slot %d at %s, %v", slot, addr, ok)
	}
}

// A pointer is a source that names one master.
type pointer struct{ addr string }

func (p *pointer) find(context.Context) (layout, error) {
	return layout{masters: []string{p.addr}}, nil
}

func (*pointer) confirm(context.Context, *node, bool) error { return nil }

func (*pointer) close() {}

// A master that the sentinels have replaced is not used any more, whether its
// successor answers yet or not.
func TestDemoted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := &pointer{s.Addr()}
	d := &Driver{
		c:      Config{Mode: Sentinel, Network: "tcp", DialTimeout: patient, Timeout: patient},
		source: p, scanSignal: make(chan struct{}, 1), nodes: make(map[string]*node), watchers: make(map[int]func()),
	}
	d.life, d.end = context.WithCancel(context.Background())
	defer d.Close()
	d.table.Store(new(table))
	if err := d.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.addr = "127.0.0.1:1"
	if err := d.refresh(t.Context()); err == nil {
		t.Fatal("refreshed without a server at that address")
	}
	if _, err := d.Do(t.Context(), put("x")); err == nil {
		t.Error("granted by a master that was replaced")
	}
}

// A server is replaced while a connection to it is being opened. The caller that
// waits for it is told that, and not that its own context is done.
func TestReplacedWhileDialling(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // no TLS handshake ever ends there
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	d := &Driver{
		c: Config{
			Mode: Sentinel, Network: "tcp", DialTimeout: 4 * patient, Timeout: 4 * patient,
			TLS: &tls.Config{ServerName: "x", MinVersion: tls.VersionTLS12},
		},
		source: &pointer{}, scanSignal: make(chan struct{}, 1), nodes: make(map[string]*node), watchers: make(map[int]func()),
	}
	d.life, d.end = context.WithCancel(context.Background())
	defer d.Close()
	d.table.Store(&table{masters: []*node{d.node(silent.Addr().String())}})
	errs := make(chan error, 1)
	go func() {
		_, err := d.Do(context.Background(), put("x"))
		errs <- err
	}()
	if _, err := silent.Accept(); err != nil {
		t.Fatal(err)
	}
	d.setTable(new(table), layout{})
	err = <-errs
	if errors.Is(err, context.Canceled) || driver.ClassOf(err) != driver.Definite || !strings.Contains(err.Error(), "was replaced") {
		t.Errorf("the server was replaced: %v is %v, want definite, and not that of a context", err, driver.ClassOf(err))
	}
}

// A context of the driver has ended an attempt. Its callers do not take it for
// their own.
func TestForCaller(t *testing.T) {
	t.Parallel()
	d := &Driver{life: context.Background()}
	for _, err := range []error{driver.Unsent(context.Canceled), driver.Unknown(context.DeadlineExceeded)} {
		got := d.forCaller(t.Context(), err)
		if errors.Is(got, context.Canceled) || errors.Is(got, context.DeadlineExceeded) || driver.ClassOf(got) != driver.ClassOf(err) {
			t.Errorf("%v reaches the caller as %v", err, got)
		}
	}
}
