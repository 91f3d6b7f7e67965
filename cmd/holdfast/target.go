package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/rueidis"
)

// defaultURL is the server if none is given. It is the default of redis-cli.
const defaultURL = "redis://127.0.0.1:6379"

// target holds the flags that select the server.
type target struct {
	url    string // value of --url
	config string // path of a Redisson configuration file
	env    func(string) string
	err    io.Writer // for warnings
}

func (t *target) flags(f *pflag.FlagSet, s streams) {
	f.StringVar(&t.url, "url", "", "server: redis://host:6379, redis-sentinel://...\nor redis-cluster://... (default: HOLDFAST_URL,\nwhich hides the password from ps, or else\n"+defaultURL+")")
	f.StringVar(&t.config, "config", "", "Redisson configuration file that names the servers, instead of --url")
	t.env, t.err = s.env, s.err
}

// named reports whether a server is given by flag or environment.
func (t *target) named() bool { return t.config != "" || t.address() != "" }

func (t *target) address() string {
	if t.url != "" {
		return t.url
	}
	return t.env("HOLDFAST_URL")
}

// withoutSecrets removes the user and the passwords from a URL. The result names
// the same servers. It is "" if the URL is invalid.
func withoutSecrets(raw string) string {
	if _, err := rueidis.ParseURL(raw); err != nil {
		return ""
	}
	scheme, rest, _ := strings.Cut(raw, "://")
	if _, after, ok := strings.Cut(rest, "@"); ok { // a valid URL has at most one @
		rest = after
	}
	rest, query, _ := strings.Cut(rest, "?")
	kept := slices.DeleteFunc(strings.Split(query, "&"), func(parameter string) bool {
		name, _, _ := strings.Cut(parameter, "=")
		name, err := url.QueryUnescape(name)
		return err != nil || name == "" || name == "sentinel_username" || name == "sentinel_password"
	})
	if len(kept) > 0 {
		rest += "?" + strings.Join(kept, "&")
	}
	return scheme + "://" + rest
}

// open connects to the given server, or to defaultURL. Without a logger in o, it
// prints the warnings of the connect, such as unverified certificates, and
// discards later log records.
func (t *target) open(ctx context.Context, o holdfast.Options) (*holdfast.Client, error) {
	if o.Logger == nil {
		h := &openingLog{w: t.err}
		o.Logger = slog.New(h)
		defer h.over.Store(true)
	}
	switch {
	case t.config != "" && t.url != "":
		return nil, usage("--url and --config exclude each other: give one of them")
	case strings.Contains(t.config, "://"):
		return nil, usage("--config takes a file: use --url for a URL")
	case t.config != "":
		return holdfast.OpenConfig(ctx, t.config, &o)
	case t.named():
		return holdfast.Open(ctx, t.address(), &o)
	}
	return holdfast.Open(ctx, defaultURL, &o)
}

// An openingLog is a log handler that prints warnings until over is set.
type openingLog struct {
	w    io.Writer
	over atomic.Bool
}

func (l *openingLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && !l.over.Load()
}

func (l *openingLog) Handle(_ context.Context, r slog.Record) error {
	if l.over.Load() {
		return nil
	}
	_, err := fmt.Fprintln(l.w, "holdfast: warning: "+harmless(r.Message))
	return err
}

func (l *openingLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *openingLog) WithGroup(string) slog.Handler      { return l }
