package rueidis

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestParseURL(t *testing.T) {
	for url, want := range map[string]Config{
		"redis://host":                    {Addr: "host:6379"},
		"redis://host:1234/3":             {Addr: "host:1234", DB: 3},
		"redis://host/":                   {Addr: "host:6379"},
		"redis://[::1]:7":                 {Addr: "[::1]:7"},
		"redis://:secret@host":            {Addr: "host:6379", Password: "secret"},
		"redis://user:p%40ss%2F@host":     {Addr: "host:6379", Username: "user", Password: "p@ss/"},
		"valkey://host?db=2":              {Addr: "host:6379", DB: 2},
		"unix:///run/redis.sock?db=1":     {Network: "unix", Addr: "/run/redis.sock", DB: 1},
		"unix://user:pw@/run/redis.sock":  {Network: "unix", Addr: "/run/redis.sock", Username: "user", Password: "pw"},
		"redis://host?timeout=1s":         {Addr: "host:6379", Timeout: time.Second},
		"redis://host?dial_timeout=500ms": {Addr: "host:6379", DialTimeout: 500 * time.Millisecond},
		"redis://host?client_name=me":     {Addr: "host:6379", ClientName: "me"},
		"redis://host?protocol=2":         {Addr: "host:6379", RESP2: true},
	} {
		got, err := ParseURL(url)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", url, got, err, want)
		}
	}
	c, err := ParseURL("rediss://host?tls_server_name=other")
	if err != nil || c.TLS == nil || c.TLS.ServerName != "other" || c.TLS.InsecureSkipVerify {
		t.Errorf("rediss: %+v, %v", c.TLS, err)
	}
}

func TestSecret(t *testing.T) {
	c := Config{Addr: "host:6379", Username: "me", Password: "hunter2"}
	if text := fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c.Password, c.Password); strings.Contains(text, "hunter2") {
		t.Errorf("shows: %s", text)
	}
}

// Whatever is given as a URL, the answer is a usable configuration or an error
// that does not repeat it.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{
		"redis://user:sesame-open@host:6379/0?timeout=2s", "rediss://host", "unix:///x", "redis://:sesame-open%zz@host",
		"redis://a,b", "redis://host?db=1&x=2", "//", ":", "redis://[::1", "redis-cluster://x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, url string) {
		c, err := ParseURL(url)
		if err != nil {
			if strings.Contains(err.Error(), "sesame-open") {
				t.Errorf("the error repeats the password: %v", err)
			}
			return
		}
		if err := c.check(); err != nil {
			t.Errorf("%q is taken, but: %v", url, err)
		}
	})
}
