package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
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
