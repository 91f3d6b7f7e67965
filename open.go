package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Open connects to the Redis or Valkey servers of a URL:
//
//	redis://user:password@host:6379/0           a single server; database 0
//	redis://host1:6379,host2:6379,host3:6379/0  a master and its replicas; Open finds the master
//	redis-sentinel://host1:26379,host2/0?master_name=mymaster
//	redis-cluster://host1:6379,host2:6379
//	unix:///run/redis/redis.sock?db=1           a Unix socket
//
// With rediss, rediss-sentinel and rediss-cluster, connections use TLS. The
// schemes may begin with valkey instead of redis, and with valkeys instead of
// rediss.
//
// The query of the URL may contain these parameters:
//
//   - db, client_name, protocol (2 or 3);
//   - timeout (of one request, 2s) and dial_timeout (2s);
//   - for TLS: tls_ca, tls_cert, tls_key (files) and tls_server_name;
//   - with several servers: scan_interval (1s), the interval for checking the
//     roles of the servers;
//   - with sentinels: sentinel_username, sentinel_password and sentinel_tls (on
//     or off);
//   - with a cluster: sharded (auto, on or off), whether to use sharded
//     pub/sub.
//
// User, password and query are percent-encoded. If options is nil, the defaults apply.
// Open does not change it.
//
// Open fails with [ErrInvalid] if the URL or the options are invalid, with
// [ErrRefused] if the server rejects the user, has no Lua engine or is a proxy
// ([driver.ErrNoLua], [driver.SystemError]), and with [ErrUnavailable] if the server
// does not answer or is a read-only replica, see [Options].AllowReplica.
// [OpenConfig] reads the same settings from a file.
func Open(ctx context.Context, url string, options *Options) (*Client, error) {
	config, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, &Error{Op: "open", Err: invalid("%w", err)}
	}
	return connect(ctx, config, options.value())
}

// value returns a copy of the options. Those of nil are the defaults.
func (o *Options) value() Options {
	if o == nil {
		return Options{}
	}
	return *o
}

// connect opens the driver and creates the client, for Open and OpenConfig.
func connect(ctx context.Context, config rueidis.Config, o Options) (*Client, error) {
	fail := func(err error) (*Client, error) { return nil, &Error{Op: "open", Err: err} }
	if err := cmp.Or(checkContext(ctx), o.withDefaults().check()); err != nil {
		return fail(err)
	}
	config.RejectReplica = !o.AllowReplica
	d, err := rueidis.Open(ctx, config)
	switch {
	case err == nil:
	case driver.ClassOf(err) == driver.Fatal:
		return fail(fmt.Errorf("%w: %w", ErrRefused, err))
	default:
		return fail(because(ctx, fmt.Errorf("%w: %w", ErrUnavailable, err)))
	}
	// Other errors may pass, or concern only some names.
	if _, err := d.Do(ctx, script.ProbeLua()); errors.Is(err, driver.ErrNoLua) {
		_ = d.Close()
		return fail(fmt.Errorf("%w: %w", ErrRefused, err))
	}
	c, err := New(d, &o)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return c, nil
}
