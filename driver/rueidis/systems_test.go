package rueidis_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A proxy spreads keys over servers, so that a lock excludes no other holder. It
// is refused if it is recognized.
func TestProxies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, query, system, says string }{
		{"Predixy 1.0.5", "", "Predixy", "the server is Predixy, which is not supported: it is a proxy."},
		{"Envoy 1.40.0", "?protocol=2", "Envoy", "two clients can hold one lock. Connect to the servers behind it"},
		{"Envoy 1.40.0", "", "", "NOPROTO the server has no RESP3"},
		{"Envoy 1.36.2", "", "a proxy that merges the replies of several servers", "not supported"},
		{"Codis de1ad02", "", "Codis", "not supported"},
		{"Twemproxy 0.5.0", "", "", "as Twemproxy does"},
		{"Twemproxy 0.5.0", "?protocol=2", "", "as Twemproxy does"},
	} {
		err := try(t, "redis://"+redistest.Recorded[tt.name].Play(t)+tt.query)
		var e *driver.SystemError
		if found := errors.As(err, &e); found != (tt.system != "") || found && (e.System != tt.system || !e.Proxy || driver.ClassOf(err) != driver.Fatal) {
			t.Errorf("%s%s: %v (%v)", tt.name, tt.query, err, driver.ClassOf(err))
		}
		if err == nil || !strings.Contains(err.Error(), tt.says) || len(err.Error()) > 400 {
			t.Errorf("%s%s: %v, want %q", tt.name, tt.query, err, tt.says)
		}
	}
	if err := try(t, "redis://"+redistest.Other{"PING": ""}.Play(t)); err == nil || strings.Contains(err.Error(), "Twemproxy") {
		t.Errorf("closes the connection at PING: %v", err)
	}
}

// A server is not refused because it is not known, or because locks were not
// tested with it. Facts say what it is.
func TestOtherSystems(t *testing.T) {
	t.Parallel()
	odd := redistest.InfoReply("redis_version:9.9") // without a role
	all := map[string]redistest.Other{
		"unknown":             {"INFO": redistest.InfoReply("future_version:1", "role:master")},
		"without INFO":        {},
		"without HELLO":       {"INFO": odd},
		"with a HELLO":        {"INFO": odd, "HELLO": "*2\r\n$6\r\nserver\r\n$5\r\nredis\r\n"},
		"with a strange name": {"INFO": odd, "HELLO": "*2\r\n$6\r\nserver\r\n:1\r\n"},
		"with a strange list": {"INFO": odd, "HELLO": "*1\r\n$6\r\nserver\r\n"},
	}
	unknown := len(all)
	for name, o := range redistest.Documented {
		all[name] = o
	}
	for name, o := range all {
		d, err := open(t, "redis://"+o.Play(t)+"?protocol=2")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var e *driver.SystemError
		_, listed := redistest.Documented[name]
		switch err := d.Facts(t.Context())[0].Unsupported(); {
		case errors.As(err, &e) != listed:
			t.Errorf("%s: %v", name, err)
		case listed && (e.System != name || e.Proxy || !strings.Contains(e.Error(), "Holdfast was never tested with it")):
			t.Errorf("%s: %+v", name, e)
		}
	}
	if len(all) != unknown+len(redistest.Documented) {
		t.Error("two systems have one name")
	}
}

func open(t *testing.T, url string) (*rueidis.Driver, error) {
	t.Helper()
	c, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	bear(&c)
	d, err := rueidis.Open(t.Context(), c)
	if err == nil {
		t.Cleanup(func() { _ = d.Close() })
	}
	return d, err
}
