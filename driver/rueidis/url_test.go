package rueidis

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseURL(t *testing.T) {
	for url, want := range map[string]Config{
		"redis://host":                    {Addr: "host:6379"},
		"redis://host:1234/3":             {Addr: "host:1234", DB: 3},
		"redis://host/":                   {Addr: "host:6379"},
		"REDIS://host":                    {Addr: "host:6379"},
		"redis://[::1]:7":                 {Addr: "[::1]:7"},
		"redis://[fe80::1%25eth0]":        {Addr: "[fe80::1%eth0]:6379"},
		"redis://:secret@host":            {Addr: "host:6379", Password: "secret"},
		"redis://user:p%40ss%2F@host":     {Addr: "host:6379", Username: "user", Password: "p@ss/"},
		"valkey://host?db=2":              {Addr: "host:6379", DB: 2},
		"unix:///run/redis.sock?db=1":     {Network: "unix", Addr: "/run/redis.sock", DB: 1},
		"unix://user:pw@/run/redis.sock":  {Network: "unix", Addr: "/run/redis.sock", Username: "user", Password: "pw"},
		"redis://host?timeout=1s":         {Addr: "host:6379", Timeout: time.Second},
		"redis://host?dial_timeout=500ms": {Addr: "host:6379", DialTimeout: 500 * time.Millisecond},
		"redis://host?client_name=me":     {Addr: "host:6379", ClientName: "me"},
		"redis://host?protocol=2":         {Addr: "host:6379", RESP2: true},

		"redis://h1:1,h2:2,h3/4": {Mode: Replicated, Addrs: []string{"h1:1", "h2:2", "h3:6379"}, DB: 4},
		"valkey://u:a,b:c@h_1,[::1]:2?scan_interval=5s": {
			Mode: Replicated, Addrs: []string{"h_1:6379", "[::1]:2"}, Username: "u", Password: "a,b:c",
			ScanInterval: 5 * time.Second,
		},
		"redis://:p%2Cq%40r%3As%2Ft@h1,h2": {Mode: Replicated, Addrs: []string{"h1:6379", "h2:6379"}, Password: "p,q@r:s/t"},

		"redis-sentinel://s1:1,s2?master_name=m": {Mode: Sentinel, Addrs: []string{"s1:1", "s2:26379"}, MasterName: "m"},
		"valkey-sentinel://u:p@s1/2?master_name=my%20m&sentinel_username=x&sentinel_password=y%26&sentinel_tls=off": {
			Mode: Sentinel, Addrs: []string{"s1:26379"}, MasterName: "my m", DB: 2,
			Username: "u", Password: "p", SentinelUsername: "x", SentinelPassword: "y&",
		},

		"redis-cluster://h1":                      {Mode: Cluster, Addrs: []string{"h1:6379"}},
		"redis-cluster://h1/0":                    {Mode: Cluster, Addrs: []string{"h1:6379"}},
		"valkey-cluster://u:p@h1:1,h2?sharded=on": {Mode: Cluster, Addrs: []string{"h1:1", "h2:6379"}, Username: "u", Password: "p", Sharded: ShardedOn},
		"redis-cluster://h1?sharded=off":          {Mode: Cluster, Addrs: []string{"h1:6379"}, Sharded: ShardedOff},
		"redis-cluster://h1?sharded=auto":         {Mode: Cluster, Addrs: []string{"h1:6379"}},
	} {
		got, err := ParseURL(url)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", url, got, err, want)
		}
	}
}

func TestParseURLWithTLS(t *testing.T) {
	for url, want := range map[string]struct{ servers, sentinels bool }{
		"rediss://host":                                                          {servers: true},
		"valkeys://h1,h2":                                                        {servers: true},
		"rediss-cluster://h1":                                                    {servers: true},
		"valkeys-cluster://h1":                                                   {servers: true},
		"rediss-sentinel://h1?master_name=m":                                     {servers: true, sentinels: true},
		"valkeys-sentinel://h1?master_name=m":                                    {servers: true, sentinels: true},
		"rediss-sentinel://h1?master_name=m&sentinel_tls=off":                    {servers: true},
		"redis-sentinel://h1?master_name=m&sentinel_tls=on":                      {sentinels: true},
		"valkeys-sentinel://h1?master_name=m&sentinel_tls=on":                    {servers: true, sentinels: true},
		"redis-sentinel://h1?master_name=m&sentinel_tls=off":                     {},
		"rediss://host?tls_server_name=other":                                    {servers: true},
		"redis-sentinel://h?master_name=m&sentinel_tls=on&tls_server_name=other": {sentinels: true},
	} {
		c, err := ParseURL(url)
		if err != nil || (c.TLS != nil) != want.servers || (c.SentinelTLS != nil) != want.sentinels {
			t.Errorf("%s: servers %v, sentinels %v, %v", url, c.TLS != nil, c.SentinelTLS != nil, err)
			continue
		}
		name := ""
		if strings.Contains(url, "other") {
			name = "other"
		}
		if c.TLS != nil && (c.TLS.ServerName != name || c.TLS.InsecureSkipVerify) || c.SentinelTLS != nil && c.SentinelTLS.ServerName != name {
			t.Errorf("%s: %+v, %+v", url, c.TLS, c.SentinelTLS)
		}
	}
}

// The error names what is wrong and does not repeat the password.
func TestParseURLRefuses(t *testing.T) {
	for _, test := range []struct{ url, want string }{
		{"", "redis://host:port"},
		{"localhost:6379", "redis://host:port"},
		{"http://h", "unknown scheme"},
		{"redis://", "no host"},
		{"redis://:sesame@", "no host"},
		{"redis://h1,,h2", "server 2 of the list: no host"},
		{"redis://h1,h2:0", "server 2 of the list: the port"},
		{"redis://h:65536", "the port"},
		{"redis://h:+1", "the port"},
		{"redis://::1", "brackets"},
		{"redis://[::1", "IPv6"},
		{"redis://[::1]7", "the port"},
		{"redis://[1.2.3.4]", "IPv6"},
		{"redis://ho st", "character"},
		{"redis://h%41", "character"},
		{"redis://h1,h1:6379", "addresses 1 and 2 are the same"},
		{"redis://u:sesame@h1,u:sesame@h2", "unexpected @"},
		{"redis://u:ses@me@h", "%40"},
		{"redis://u:1/sesame@h", "%2F"},
		{"redis://u:1?sesame@h", "%3F"},
		{"redis://u:1?db=sesame&x@h", "%3F"},
		{"redis://u:1#sesame@h", "%23"},
		{"redis://u:sesame%zz@h", "%25"},
		{"redis://sesame@h", "redis://:password@host"},
		{"redis://h/x", "the database"},
		{"redis://h/-1", "the database"},
		{"redis://h/1?db=2", "twice"},
		{"redis://h?db=1&db=1", `"db" is given more than once`},
		{"redis://h?db=", `"db" is empty`},
		{"redis://h?database=1", "parameter 1 of the URL is unknown: known are client_name, db,"},
		{"redis://h?%20sesame=1", "parameter 1 of the URL is unknown"},
		{"redis://h?sesame=1", "parameter 1 of the URL is unknown"},
		{"redis://h?db=1&timeout=1s&sesame", "parameter 3 of the URL is unknown"},
		{"redis://h?a=%zz", "the query"},
		{"redis://h?timeout=2", "timeout must be a positive duration"},
		{"redis://h1,h2?scan_interval=-2s", "scan_interval must be a positive duration"},
		{"redis://h?protocol=4", "protocol must be"},
		{"redis://h?scan_interval=2s", `"scan_interval" has no effect in mode single`},
		{"unix:///s?scan_interval=2s", `"scan_interval" has no effect in mode single`},
		{"redis://h?master_name=m", `"master_name" has no effect in mode single`},
		{"redis://h1,h2?sharded=on", `"sharded" has no effect in mode replicated`},
		{"redis-cluster://h?sentinel_password=sesame", `"sentinel_password" has no effect in mode cluster`},
		{"redis-cluster://h?db=0", `"db" has no effect in mode cluster`},
		{"redis-cluster://h/1", "database 0 only"},
		{"redis-cluster://h?sharded=yes", "sharded must be"},
		{"redis-sentinel://h/0", "master_name"},
		{"redis-sentinel://h/0#mymaster", "?master_name="},
		{"redis-sentinel://h/mymaster?master_name=m", "the database"},
		{"redis-sentinel://h?master_name=m&sentinel_username=u", "sentinel_password"},
		{"redis-sentinel://h?master_name=m&sentinel_tls=maybe", "sentinel_tls must be"},
		{"redis-sentinel://h?master_name=m&tls_ca=x", `"tls_ca" needs TLS`},
		{"redis://h?tls_key=x", `"tls_key" needs TLS`},
		{"rediss://h?tls_key=x", "tls_cert and key go together"},
		{"rediss://h?tls_ca=/does/not/exist", "tls_ca: open"},
		{"unix://", "socket"},
		{"unix://h/s", "socket"},
	} {
		c, err := ParseURL(test.url)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v, want %q", test.url, err, test.want)
		}
		if !reflect.DeepEqual(c, Config{}) {
			t.Errorf("%s: %+v beside the error", test.url, c)
		}
	}
}

func TestSecret(t *testing.T) {
	c := Config{Addr: "host:6379", Username: "me", Password: "hunter2", SentinelPassword: "hunter2"}
	if text := fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c.Password, c.Password); strings.Contains(text, "hunter2") {
		t.Errorf("shows: %s", text)
	}
}

// Whatever is given as a URL, the answer is a usable configuration, the same
// each time, or an error that does not repeat it.
func FuzzParseURL(f *testing.F) {
	const secret = "sesame-open"
	for _, s := range []string{
		"redis://user:sesame-open@host:6379/0?timeout=2s", "rediss://host", "unix:///x", "redis://:sesame-open%zz@host",
		"redis://a,b", "redis://host?db=1&x=2", "//", ":", "redis://[::1", "redis-cluster://x", "redis://:a/sesame-open@h", "redis://:1?sesame-open@h",
		"redis-sentinel://:sesame-open@a:1,[::1],b/0?master_name=m&sentinel_password=sesame-open&scan_interval=1s&sentinel_tls=on",
		"valkeys-cluster://u:sesame-open@a,b?sharded=off&protocol=2", "redis://u:sesame-open@a,u:sesame-open@b",
		"redis://h?sesame-open=1", "redis://sesame-open:x", "redis://h/sesame-open", "sesame-open://h",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, url string) {
		c, err := ParseURL(url)
		again, err2 := ParseURL(url)
		if (err == nil) != (err2 == nil) || !reflect.DeepEqual(c, again) {
			t.Errorf("first %+v, %v, then %+v, %v", c, err, again, err2)
		}
		if err != nil {
			// Only the files of parameters such as tls_ca are named.
			if !strings.Contains(url, "tls_") && strings.Contains(err.Error(), secret) {
				t.Errorf("the error repeats the password: %v", err)
			}
			return
		}
		if err := c.check(); err != nil {
			t.Errorf("%q is taken, but: %v", url, err)
		}
	})
}
