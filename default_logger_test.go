package holdfast_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// captureDefault has slog.Default() write into the buffer that it returns, down to
// the level Debug. Tests that call it cannot run in parallel.
func captureDefault(t *testing.T) *syncBuffer {
	t.Helper()
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	var b syncBuffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
	return &b
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Certificates that are not checked are said in the log, unless the caller wants
// no log, and Check finds it.
func TestUnverifiedTLSIsSaid(t *testing.T) {
	s := redistest.StartWith(t, redistest.WithTLS(), redistest.Args("--tls-auth-clients", "no", "--appendonly", "yes", "--appendfsync", "always"))
	const all, host = "the certificates of the servers are not checked", "the hosts in the certificates of the servers are not checked"
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
			log := captureDefault(t)
			c, err := holdfast.OpenConfig(t.Context(), file)
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
				if f.Topic == "tls" && f.Severity == holdfast.Warning {
					said += f.Text
				}
			}
			if (said == "") != (tt.says == "") || !strings.Contains(said, tt.says) {
				t.Errorf("Check found %+v, want %q", found, tt.says)
			}
			log = captureDefault(t)
			silent, err := holdfast.OpenConfig(t.Context(), file, holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
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
	log := captureDefault(t)
	c, err := holdfast.New(d, holdfast.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if said := log.String(); !strings.Contains(said, all) {
		t.Errorf("the log says %q", said)
	}
}

// A client without a logger logs warnings through the default logger of the
// moment, and nothing below.
func TestDefaultLogger(t *testing.T) {
	log := captureDefault(t)
	h := holdfast.DefaultLogger().With("a", 1).WithGroup("g").With("b", 2)
	for level, enabled := range map[slog.Level]bool{slog.LevelDebug: false, slog.LevelInfo: false, slog.LevelWarn: true, slog.LevelError: true} {
		if h.Enabled(context.Background(), level) != enabled {
			t.Errorf("%v is enabled: %v, want %v", level, !enabled, enabled)
		}
	}
	h.Info("quiet")
	if h.Warn("loud"); log.String() == "" || strings.Contains(log.String(), "quiet") || !strings.Contains(log.String(), "msg=loud a=1 g.b=2") {
		t.Errorf("the log says %q", log)
	}
	later := captureDefault(t)
	if h.Warn("later"); !strings.Contains(later.String(), "msg=later") {
		t.Errorf("the new default logger got %q", later)
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(later, &slog.HandlerOptions{Level: slog.LevelError})))
	if h.Enabled(context.Background(), slog.LevelWarn) {
		t.Error("the default logger wants errors only, and gets warnings")
	}
}
