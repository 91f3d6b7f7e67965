// Package rueidis is Holdfast's default driver. It runs on the client library
// github.com/redis/rueidis, and it is the only package that knows that library.
//
// Commands of all goroutines share one connection, pipelined as they come;
// subscriptions have a second one of their own, so that a flood of messages
// never delays a command.
package rueidis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// The keep-alive gap and the write timeout of rueidis decide when a silent
// connection is given up: a PING goes out after a second without traffic and
// has Config.Timeout to be answered.
const pingGap = time.Second

// Driver is a driver.Driver on one Redis server.
type Driver struct {
	client  rueidis.Client
	timeout time.Duration
	db      int
	life    context.Context // done when the driver is closed
	end     context.CancelFunc
	link    atomic.Pointer[link] // the connection that commands share
	calls   atomic.Int64         // under way
	broke   atomic.Bool          // a call was interrupted; see link.go
}

var _ driver.Driver = (*Driver)(nil)

// Open connects to the server that c describes. It fails when the server does
// not answer, unless ctx is done before.
func Open(ctx context.Context, c Config) (*Driver, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	d := &Driver{timeout: c.Timeout, db: c.DB}
	d.life, d.end = context.WithCancel(context.Background())
	opt := rueidis.ClientOption{
		InitAddress:       []string{c.Addr},
		ForceSingleClient: true, // never guess at a cluster
		Username:          c.Username,
		Password:          string(c.Password),
		SelectDB:          c.DB,
		ClientName:        c.ClientName,
		TLSConfig:         c.TLS,
		Dialer:            net.Dialer{Timeout: c.DialTimeout, KeepAlive: pingGap},
		DialCtxFn:         d.dialer(c.Network),
		ConnWriteTimeout:  c.Timeout,
		AlwaysRESP2:       c.RESP2,
		DisableRetry:      true, // the engine retries, since it knows until when
		DisableCache:      true,
		PipelineMultiplex: -1, // one connection: commands keep their order
		// Lock traffic is small; the library's half MiB each way is not needed.
		ReadBufferEachConn:  32 << 10,
		WriteBufferEachConn: 32 << 10,
	}
	// NewClient dials without a context, hence the goroutine.
	type opened struct {
		client rueidis.Client
		err    error
	}
	ch := make(chan opened, 1)
	go func() {
		client, err := rueidis.NewClient(opt)
		ch <- opened{client, err}
	}()
	select {
	case o := <-ch:
		if o.err != nil {
			d.end()
			if o.client != nil {
				o.client.Close()
			}
			return nil, classify(o.err)
		}
		d.client = o.client
		d.link.Load().ready.Store(true)
		return d, nil
	case <-ctx.Done():
		d.end() // ends the dial
		go func() {
			if o := <-ch; o.client != nil {
				o.client.Close()
			}
		}()
		return nil, driver.Unsent(context.Cause(ctx))
	}
}

// Do implements driver.Driver.
func (d *Driver) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	if d.mayBlock(ctx) {
		call.Keys, call.Args = slices.Clone(call.Keys), slices.Clone(call.Args) // may outlive this method
		r := detour(ctx, func(err error) driver.Result { return driver.Result{Err: err} },
			func() driver.Result { return d.do(ctx, call) })
		return r.Reply, r.Err
	}
	r := d.do(ctx, call)
	return r.Reply, r.Err
}

func (d *Driver) do(ctx context.Context, call driver.Call) driver.Result {
	done := d.bound(ctx)
	defer done.release()
	resp := d.client.Do(done, d.evalsha(call))
	if isNoScript(resp) {
		resp = d.client.Do(done, d.eval(call))
	}
	reply, err := decode(resp)
	if err == nil {
		done.answered()
	}
	return driver.Result{Reply: reply, Err: d.whose(ctx, err)}
}

// DoAcked implements driver.Driver.
func (d *Driver) DoAcked(ctx context.Context, call driver.Call, replicas int, timeout time.Duration) (driver.Reply, int, error) {
	var reply driver.Reply
	var acked int64
	err := d.client.Dedicated(func(c rueidis.DedicatedClient) error {
		wait := func() rueidis.Completed {
			return c.B().Wait().Numreplicas(int64(replicas)).Timeout(timeout.Milliseconds()).Build()
		}
		rs := c.DoMulti(ctx, d.evalsha(call), wait())
		if isNoScript(rs[0]) {
			rs = c.DoMulti(ctx, d.eval(call), wait())
		}
		var err error
		if reply, err = decode(rs[0]); err != nil {
			return err
		}
		acked, err = rs[1].AsInt64()
		if err != nil {
			return driver.Unknown(err)
		}
		return nil
	})
	return reply, int(acked), err
}

// DoMany implements driver.Driver.
func (d *Driver) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	if !d.mayBlock(ctx) {
		return d.doMany(ctx, calls)
	}
	calls = slices.Clone(calls)
	for i, c := range calls {
		calls[i].Keys, calls[i].Args = slices.Clone(c.Keys), slices.Clone(c.Args)
	}
	return detour(ctx, func(err error) []driver.Result {
		return slices.Repeat([]driver.Result{{Err: err}}, len(calls))
	}, func() []driver.Result { return d.doMany(ctx, calls) })
}

func (d *Driver) doMany(ctx context.Context, calls []driver.Call) []driver.Result {
	multi := make([]rueidis.Completed, len(calls))
	for i, call := range calls {
		multi[i] = d.evalsha(call)
	}
	results := make([]driver.Result, len(calls))
	done := d.bound(ctx)
	defer done.release()
	for i, resp := range d.client.DoMulti(done, multi...) {
		if isNoScript(resp) {
			resp = d.client.Do(done, d.eval(calls[i]))
		}
		reply, err := decode(resp)
		if err == nil {
			done.answered()
		}
		results[i] = driver.Result{Reply: reply, Err: d.whose(ctx, err)}
	}
	return results
}

// Place implements driver.Driver: there is only one.
func (d *Driver) Place(string) driver.Place { return driver.Place{} }

// Facts implements driver.Driver.
func (d *Driver) Facts(ctx context.Context) (driver.Facts, error) {
	done := d.bound(ctx)
	defer done.release()
	rs := d.client.DoMulti(done, d.client.B().Info().Build(), d.client.B().ConfigGet().Parameter(notify).Build())
	text, err := rs[0].ToString()
	if err != nil {
		return driver.Facts{}, classify(err)
	}
	events, err := rs[1].AsStrMap()
	if err != nil {
		err = classify(err) // some servers let nobody see their settings
	} else if _, ok := events[notify]; !ok {
		err = driver.ServerError("ERR the server has no setting " + notify)
	}
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			info[k] = v
		}
	}
	replicas, _ := strconv.Atoi(info["connected_slaves"])
	uptime, _ := strconv.Atoi(info["uptime_in_seconds"])
	return driver.Facts{
		Version:  info["redis_version"],
		RunID:    info["run_id"],
		ReplID:   info["master_replid"],
		Role:     info["role"],
		Replicas: replicas,
		Cluster:  info["cluster_enabled"] == "1",
		Uptime:   time.Duration(uptime) * time.Second,
		Database: d.db,

		Events:    events[notify],
		EventsErr: err,
	}, nil
}

// notify is the setting that says which events of keys are published.
const notify = "notify-keyspace-events"

// Close implements driver.Driver.
func (d *Driver) Close() error {
	d.end()
	d.client.Close()
	return nil
}

func (d *Driver) evalsha(c driver.Call) rueidis.Completed {
	return d.client.B().Evalsha().Sha1(c.Script.SHA).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build()
}

func (d *Driver) eval(c driver.Call) rueidis.Completed {
	return d.client.B().Eval().Script(c.Script.Source).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build()
}

func isNoScript(r rueidis.RedisResult) bool {
	e, ok := rueidis.IsRedisErr(r.Error())
	return ok && e.IsNoScript()
}

func decode(r rueidis.RedisResult) (driver.Reply, error) {
	m, err := r.ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		return driver.Reply{}, classify(err)
	}
	return reply(m)
}

func reply(m rueidis.RedisMessage) (driver.Reply, error) {
	switch {
	case m.IsNil():
		return driver.Reply{}, nil
	case m.IsInt64():
		n, err := m.ToInt64()
		return driver.Reply{Type: driver.Int, Int: n}, err
	case m.IsString():
		s, err := m.ToString()
		return driver.Reply{Type: driver.Str, Str: s}, err
	case m.IsArray():
		ms, err := m.ToArray()
		if err != nil {
			return driver.Reply{}, err
		}
		list := make([]driver.Reply, len(ms))
		for i := range ms {
			if list[i], err = reply(ms[i]); err != nil {
				return driver.Reply{}, err
			}
		}
		return driver.Reply{Type: driver.List, List: list}, nil
	}
	return driver.Reply{}, &driver.Error{Class: driver.Fatal, Err: errors.New("reply of a type that no script returns")}
}

// whose says of a call without an answer whose patience has ended, the
// caller's or our own: rueidis sees only the deadline that we have lent it.
func (d *Driver) whose(ctx context.Context, err error) error {
	if err == nil || driver.ClassOf(err) != driver.Ambiguous {
		return err
	}
	if ctx.Err() != nil {
		return driver.Unknown(ctx.Err())
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return &driver.Error{Class: driver.Ambiguous, Err: fmt.Errorf("no answer within %v", d.timeout)}
	}
	return err
}

// classify turns an error of rueidis into one of package driver.
func classify(err error) error {
	if e, ok := rueidis.IsRedisErr(err); ok {
		return driver.ServerError(e.Error())
	}
	var op *net.OpError
	switch {
	case errors.Is(err, rueidis.ErrClosing):
		return &driver.Error{Class: driver.Fatal, Err: driver.ErrClosed}
	case errors.As(err, &op) && op.Op == "dial":
		return driver.Unsent(err)
	case errors.Is(err, errNotDialled):
		return driver.Unsent(err)
	}
	return driver.Unknown(err)
}
