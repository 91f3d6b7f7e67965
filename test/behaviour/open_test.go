package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// What the rules are is tested in internal/check.
func TestCheck(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	c := locktest.Open(t, s.URL(), holdfast.Options{Replication: holdfast.Replication{Mode: holdfast.Strict, Replicas: 2}})
	fs, err := c.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	topics := make(map[string]holdfast.Finding)
	for _, f := range fs {
		topics[f.Topic] = f
	}
	line := "danger: " + s.Addr() + ": memory: the server deletes locks when its memory is full: maxmemory-policy is allkeys-lru. To change it: CONFIG SET maxmemory-policy noeviction"
	if got := topics["memory"].String(); got != line {
		t.Errorf("%s\nwant\n%s", got, line)
	}
	// These come from the options.
	if f := topics["replicas"]; f.Severity != holdfast.SeverityDanger || !strings.HasPrefix(f.Text, "2 replicas") {
		t.Errorf("two replicas are wanted: %v", fs)
	}
	if f := topics["restart"]; f.Severity != holdfast.SeverityWarning || !strings.HasSuffix(f.Text, "30s") {
		t.Errorf("the lease time is 30 s: %v", fs)
	}
	if !slices.IsSortedFunc(fs, func(a, b holdfast.Finding) int { return int(b.Severity) - int(a.Severity) }) {
		t.Errorf("not the worst first: %v", fs)
	}
}

func TestCheckFails(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	if fs, err := c.Check(t.Context(), "fine", "{"); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("a bad name: %v, %v", fs, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if fs, err := c.Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("no time: %v, %v", fs, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if fs, err := c.Check(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("after Close: %v, %v", fs, err)
	}
}

// write makes a file of a test.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "redisson.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A file with Redisson's keys leads to the server, with all that it says.
func TestOpenConfig(t *testing.T) {
	const secret = "hunter2-hunter2"
	t.Setenv("HOLDFAST_TEST_PASSWORD", secret)
	s := redistest.Start(t, "--requirepass", secret)
	for name, text := range map[string]string{
		"yaml": `
singleServerConfig:
  address: "redis://%s"
  clientName: from-a-file
  database: 3
  connectionPoolSize: 64
  retryDelay: !<org.redisson.config.EqualJitterDelay> {baseDelay: PT1S, maxDelay: PT2S}
password: ${HOLDFAST_TEST_PASSWORD}
lockWatchdogTimeout: 20000
threads: 16
codec: !<org.redisson.codec.Kryo5Codec> {}
holdfast:
  renewEvery: 5s
`,
		"json": `{"singleServerConfig": {"address": "redis://%s", "clientName": "from-a-file", "database": 3, "connectionPoolSize": 64},
"password": "${HOLDFAST_TEST_PASSWORD}", "lockWatchdogTimeout": 20000, "threads": 16, "codec": {"class": "org.redisson.codec.Kryo5Codec"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			log := new(locktest.Buffer)
			o := holdfast.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}
			c, err := holdfast.OpenConfig(t.Context(), write(t, fmt.Sprintf(text, s.Addr())), &o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			l := locktest.Lock(t, t.Context(), c.Mutex(name))
			ttl := s.Int(t, "EVAL", "redis.call('SELECT', 3) return redis.call('PTTL', KEYS[1])", "1", name)
			if ttl < 15000 || ttl > 20000 {
				t.Errorf("the lock in database 3 has %d ms left, want up to 20000", ttl)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
			if list := fmt.Sprint(s.Do(t, "CLIENT", "LIST")); !strings.Contains(list, "name=from-a-file") {
				t.Errorf("no client of that name: %s", list)
			}
			locktest.Eventually(t, 10*time.Second, "a word in the log", func() bool { return log.String() != "" })
			if text := log.String(); strings.Count(text, "no effect") != 1 || !strings.Contains(text, `level=INFO`) ||
				!strings.Contains(text, "threads") || !strings.Contains(text, "codec") || !strings.Contains(text, "singleServerConfig.connectionPoolSize") {
				t.Errorf("log: %s", text)
			} else if strings.Contains(text, secret) {
				t.Errorf("the log shows the password: %s", text)
			}
		})
	}
}

func TestOpenConfigFails(t *testing.T) {
	t.Parallel()
	const (
		secret = "hunter2-hunter2"
		base   = "singleServerConfig: {address: 'redis://127.0.0.1:1'}\npassword: " + secret + "\n"
	)
	for _, test := range []struct {
		text    string
		options holdfast.Options
		want    string
	}{
		{"", holdfast.Options{}, "the file is empty"},
		{base + "thread: 16", holdfast.Options{}, "line 3: unknown setting at the top of the file: did you mean threads?"},
		{base + strings.ReplaceAll(secret, "-", "_") + ": 16", holdfast.Options{}, "line 3: unknown setting at the top of the file"},
		{base + "username: '${" + strings.ReplaceAll(secret, "-", "_") + "}'", holdfast.Options{}, "line 3: username: refers to an environment variable that is not set"},
		{base + "lockWatchdogTimeout: 20000", holdfast.Options{WatchdogTimeout: time.Minute}, "lockWatchdogTimeout is 20s in the file, but Options.WatchdogTimeout is 1m0s"},
		{base + "lockWatchdogTimeout: 20", holdfast.Options{}, "WatchdogTimeout is 20ms"},
		{base + "holdfast: {renewEvery: 1s}", holdfast.Options{RenewEvery: 2 * time.Second}, "holdfast.renewEvery is 1s"},
		{base + "holdfast: {pollInterval: 1s}", holdfast.Options{PollInterval: 2 * time.Second}, "holdfast.pollInterval is 1s"},
		{base + "holdfast: {retryTimeout: 1s}", holdfast.Options{RetryTimeout: 2 * time.Second}, "holdfast.retryTimeout"},
		{base + "holdfast: {handoffs: 1}", holdfast.Options{Handoffs: -1}, "holdfast.handoffs is 1"},
		{base + "holdfast: {handoffTime: 1s}", holdfast.Options{HandoffTime: 2 * time.Second}, "holdfast.handoffTime is 1s"},
		{base + "holdfast: {renewEvery: 20s}", holdfast.Options{}, "RenewEvery is 20s"},
	} {
		_, err := holdfast.OpenConfig(t.Context(), write(t, test.text), &test.options)
		if !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s\n%v, want %q", test.text, err, test.want)
		}
	}
	_, err := holdfast.OpenConfig(t.Context(), filepath.Join(t.TempDir(), "nothing.yaml"), nil)
	if !errors.Is(err, holdfast.ErrInvalid) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := holdfast.OpenConfig(t.Context(), write(t, base+strings.Repeat("#", 1<<20)), nil); !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "more than 1048576 bytes: name") {
		t.Errorf("a large file: %v", err)
	}
	if _, err := os.Stat("/dev/zero"); err == nil {
		if _, err := holdfast.OpenConfig(t.Context(), "/dev/zero", nil); !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "more than 1048576 bytes: name") {
			t.Errorf("a file without an end: %v", err)
		}
	}
	if _, err := holdfast.OpenConfig(t.Context(), "redis://:"+secret+"@h", nil); !errors.Is(err, holdfast.ErrInvalid) || strings.Contains(err.Error(), secret) {
		t.Errorf("a URL for a file: %v", err)
	}
	same := holdfast.Options{WatchdogTimeout: 20 * time.Second}
	_, err = holdfast.OpenConfig(t.Context(), write(t, base+"lockWatchdogTimeout: 20000"), &same)
	if !errors.Is(err, holdfast.ErrUnavailable) || strings.Contains(err.Error(), secret) {
		t.Errorf("no server: %v, want ErrUnavailable", err)
	}
}

// Certificates that are not checked are said in the log, unless the caller wants
// no log, and Check finds it.
func TestUnverifiedTLSIsSaid(t *testing.T) {
	s := redistest.StartWith(t, redistest.WithTLS(), redistest.Args("--tls-auth-clients", "no", "--appendonly", "yes", "--appendfsync", "always"))
	const all, host = "the TLS certificates of the servers are not verified", "the host names in the TLS certificates of the servers are not verified"
	for _, tt := range []struct{ name, settings, says string }{
		{"strict", "holdfast: {tls: {ca: %q}}", ""},
		{"none", "sslVerificationMode: NONE # %s", all},
		{"older name", "sslEnableEndpointIdentification: false # %s", all},
		{"authority only", "sslVerificationMode: CA_ONLY\nholdfast: {tls: {ca: %q}}", host},
		{"none with an authority", "sslVerificationMode: NONE\nholdfast: {tls: {ca: %q}}", host},
		{"authority only, with a name", "sslVerificationMode: CA_ONLY\nholdfast: {tls: {ca: %q, serverName: 127.0.0.1}}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			settings := fmt.Sprintf(tt.settings, s.TLS().CA)
			text := fmt.Sprintf("singleServerConfig: {address: 'rediss://%s'}\n%s", s.Addr(), settings)
			if rest, ok := strings.CutPrefix(settings, "sslEnable"); ok {
				text = fmt.Sprintf("singleServerConfig:\n  address: 'rediss://%s'\n  sslEnable%s", s.Addr(), rest)
			}
			file := write(t, text)
			log := locktest.CaptureDefaultLog(t)
			c, err := holdfast.OpenConfig(t.Context(), file, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if said := log.String(); strings.Count(said, "level=WARN") != min(len(tt.says), 1) || !strings.Contains(said, tt.says) {
				t.Errorf("the log says %q, want %q", said, tt.says)
			}
			found, err := c.Check(t.Context(), "some")
			if err != nil {
				t.Fatal(err)
			}
			var said string
			for _, f := range found {
				if f.Topic == "tls" && f.Severity == holdfast.SeverityWarning {
					said += f.Text
				}
			}
			if (said == "") != (tt.says == "") || !strings.Contains(said, tt.says) {
				t.Errorf("Check found %+v, want %q", found, tt.says)
			}
			log = locktest.CaptureDefaultLog(t)
			silent, err := holdfast.OpenConfig(t.Context(), file, &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			if said := log.String(); said != "" {
				t.Errorf("the caller wants no log, and got %q", said)
			}
		})
	}
	// Also where the caller has made the driver.
	config, err := rueidis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.TLS.InsecureSkipVerify = true
	d, err := rueidis.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	log := locktest.CaptureDefaultLog(t)
	c, err := holdfast.New(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if said := log.String(); !strings.Contains(said, all) {
		t.Errorf("the log says %q", said)
	}
}

// A program can use the same Options for several clients, whatever the file says.
func TestOptionsAreNotChanged(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("singleServerConfig:\n  address: "+s.URL()+"\nlockWatchdogTimeout: 20000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	options := holdfast.Options{NamePrefix: "shop:"}
	before := options
	for what, open := range map[string]func() (*holdfast.Client, error){
		"Open":       func() (*holdfast.Client, error) { return holdfast.Open(t.Context(), s.URL(), &options) },
		"OpenConfig": func() (*holdfast.Client, error) { return holdfast.OpenConfig(t.Context(), file, &options) },
	} {
		c, err := open()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if !reflect.DeepEqual(options, before) {
			t.Errorf("%s has changed the options: %+v", what, options)
		}
	}
}
