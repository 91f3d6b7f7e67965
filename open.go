package holdfast

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
)

// Open connects to the Redis or Valkey server at a URL:
//
//	redis://user:password@host:6379/0      TCP; database 0
//	rediss://host:6380                     TCP with TLS
//	unix:///run/redis/redis.sock?db=1      a Unix socket
//
// The schemes valkey and valkeys mean the same as redis and rediss.
//
// Its query may set db, client_name, timeout (of one request, 2s), dial_timeout
// (2s), protocol (2 or 3), and for TLS tls_ca, tls_cert, tls_key (files) and
// tls_server_name. At most one Options may follow.
//
// Open fails with [ErrInvalid] if the URL or the options make no sense, with
// [ErrRefused] if the server turns the user away and with [ErrUnavailable] if
// it does not answer.
func Open(ctx context.Context, url string, options ...Options) (*Client, error) {
	fail := func(err error) (*Client, error) { return nil, &Error{Op: "open", Err: err} }
	var o Options
	switch len(options) {
	case 0:
	case 1:
		o = options[0]
	default:
		return fail(invalid("%d Options given: give one", len(options)))
	}
	if err := o.withDefaults().check(); err != nil {
		return fail(err)
	}
	config, err := rueidis.ParseURL(url)
	if err != nil {
		return fail(invalid("%w", err))
	}
	d, err := rueidis.Open(ctx, config)
	switch {
	case err == nil:
	case driver.ClassOf(err) == driver.Fatal:
		return fail(fmt.Errorf("%w: %w", ErrRefused, err))
	default:
		return fail(fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
	c, err := New(d, o)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return c, nil
}
