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

// standard is the server if none is named: where redis-cli looks, too.
const standard = "redis://127.0.0.1:6379"

// target is the server that a command is about.
type target struct {
	url    string // as given; empty if none was
	config string // a configuration file of Redisson's
	env    func(string) string
	err    io.Writer // for warnings
}

func (t *target) flags(f *pflag.FlagSet, s streams) {
	f.StringVar(&t.url, "url", "", "server, such as redis://host:6379, redis-sentinel://..., redis-cluster://...\n(default: HOLDFAST_URL, which hides a password from ps; else "+standard+")")
	f.StringVar(&t.config, "config", "", "configuration file of Redisson's that names the servers, instead of --url")
	t.env, t.err = s.env, s.err
}

// named reports whether the user has named a server.
func (t *target) named() bool { return t.config != "" || t.address() != "" }

func (t *target) address() string {
	if t.url != "" {
		return t.url
	}
	return t.env("HOLDFAST_URL")
}

// withoutSecrets returns a URL without user and passwords, so that it names the
// same servers, or "" if it is not one that could be used.
func withoutSecrets(raw string) string {
	if _, err := rueidis.ParseURL(raw); err != nil {
		return ""
	}
	scheme, rest, _ := strings.Cut(raw, "://")
	if _, after, ok := strings.Cut(rest, "@"); ok { // a URL has one
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

// open connects with the server that was named, or with the standard one. It
// prints the warnings that come with it, such as that certificates are not
// checked. What comes later goes to the logger of o, and nowhere if there is none.
func (t *target) open(ctx context.Context, o holdfast.Options) (*holdfast.Client, error) {
	if o.Logger == nil {
		h := &openingLog{w: t.err}
		o.Logger = slog.New(h)
		defer h.over.Store(true)
	}
	switch {
	case t.config != "" && t.url != "":
		return nil, usage("there are both --url and --config: give one of them")
	case strings.Contains(t.config, "://"):
		return nil, usage("--config names a file: give a URL with --url")
	case t.config != "":
		return holdfast.OpenConfig(ctx, t.config, o)
	case t.named():
		return holdfast.Open(ctx, t.address(), o)
	}
	return holdfast.Open(ctx, standard, o)
}

// An openingLog prints warnings for people until it is over.
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
