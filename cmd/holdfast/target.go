package main

import (
	"context"

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
}

func (t *target) flags(f *pflag.FlagSet, env func(string) string) {
	f.StringVar(&t.url, "url", "", "server, such as redis://host:6379, redis-sentinel://..., redis-cluster://...\n(default: HOLDFAST_URL, which hides a password from ps; else "+standard+")")
	f.StringVar(&t.config, "config", "", "configuration file of Redisson's that names the servers, instead of --url")
	t.env = env
}

// named reports whether the user has named a server.
func (t *target) named() bool { return t.config != "" || t.address() != "" }

func (t *target) address() string {
	if t.url != "" {
		return t.url
	}
	return t.env("HOLDFAST_URL")
}

// open connects with the server that was named, or with the standard one.
func (t *target) open(ctx context.Context, o holdfast.Options) (*holdfast.Client, error) {
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
