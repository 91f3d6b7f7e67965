package goredis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// An order is a call on its way. It has copied what it needs of the
// [driver.Call], since it may outlive it.
type order struct {
	script *driver.Script
	key    string
	args   []any // EVALSHA and all that follows
	said   int   // where in args the command to publish with is, or zero
	err    error // of go-redis
	result driver.Result
}

func newOrder(c driver.Call) *order {
	o := &order{script: c.Script, args: make([]any, 0, 3+len(c.Keys)+len(c.Args))}
	o.args = append(o.args, "evalsha", c.Script.SHA, len(c.Keys))
	for _, k := range c.Keys {
		o.args = append(o.args, k)
	}
	if len(c.Keys) > 0 {
		o.key = c.Keys[0]
	}
	if i := c.Script.Publish; i > 0 && i <= len(c.Args) && c.Args[i-1] == "PUBLISH" {
		o.said = len(o.args) + i - 1
	}
	for _, a := range c.Args {
		o.args = append(o.args, a)
	}
	return o
}

// once keeps go-redis from sending a command again, however often its options
// allow it: Holdfast knows until when that makes sense.
type once struct{ redis.Cmder }

func (once) NoRetry() bool { return true }

// command returns the order as a command, by the hash of its script or by its
// source.
func (o *order) command(ctx context.Context, source bool) *redis.Cmd {
	args := o.args
	if source {
		args = slices.Clone(args) // hooks may still look at the first one
		args[0], args[1] = "eval", o.script.Source
	}
	return redis.NewCmd(ctx, args...)
}

// take notes what became of the order.
func (o *order) take(cmd *redis.Cmd) {
	var v any
	v, o.err = cmd.Result()
	o.result = driver.Result{}
	switch {
	case errors.Is(o.err, redis.Nil):
		o.err = nil
	case o.err == nil:
		o.result.Reply, o.result.Err = reply(v)
	default:
		o.result.Err = classify(o.err)
	}
}

// A link is a connection, or a pool of them.
type link interface {
	Process(context.Context, redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// send runs orders, several as one pipeline.
func send(ctx context.Context, l link, orders []*order, source func(*order) bool) {
	if len(orders) == 1 {
		cmd := orders[0].command(ctx, source(orders[0]))
		_ = l.Process(ctx, once{cmd})
		orders[0].take(cmd)
		return
	}
	pipe := l.Pipeline()
	cmds := make([]*redis.Cmd, len(orders))
	for i, o := range orders {
		cmds[i] = o.command(ctx, source(o))
		_ = pipe.Process(ctx, once{cmds[i]})
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, o := range orders {
		o.take(cmds[i])
	}
}

// sendAll runs orders by their hashes, and those that the server does not know
// by their source.
func sendAll(ctx context.Context, l link, orders []*order) {
	send(ctx, l, orders, func(*order) bool { return false })
	var unknown []*order
	for _, o := range orders {
		if redis.HasErrorPrefix(o.err, "NOSCRIPT") {
			unknown = append(unknown, o)
		}
	}
	if len(unknown) == 0 {
		return
	}
	sent := make(map[*driver.Script]bool)
	send(ctx, l, unknown, func(o *order) bool {
		first := !sent[o.script]
		sent[o.script] = true
		return first
	})
}

// A wait is how long to wait for how many replicas. The zero wait is none.
type wait struct {
	on       bool
	replicas int
	timeout  time.Duration
}

// run runs calls and waits for replicas, for no longer than ctx.
func (d *Driver) run(ctx context.Context, calls []driver.Call, w wait) []driver.Result {
	if len(calls) == 0 {
		return nil
	}
	orders := make([]*order, len(calls))
	for i, c := range calls {
		orders[i] = newOrder(c)
	}
	// go-redis dials several times, and gives the answer to a WAIT ten seconds more
	// than it needs.
	limit := w.timeout + 2*d.timeout()
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	failed := func(err error) []driver.Result {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = &driver.Error{Class: driver.Ambiguous, Err: fmt.Errorf("no answer within %v", limit)}
		}
		return slices.Repeat([]driver.Result{{Err: err}}, len(orders))
	}
	results := aside(bounded, d, failed, func() []driver.Result {
		d.dispatch(bounded, orders, w)
		results := make([]driver.Result, len(orders))
		for i, o := range orders {
			results[i] = o.result
		}
		return results
	})
	for i := range results {
		results[i].Err = d.whose(ctx, results[i].Err)
	}
	return results
}

// dispatch sends orders to the nodes that they are for: one, or else some keys
// have just moved.
func (d *Driver) dispatch(ctx context.Context, orders []*order, w wait) {
	d.use()
	groups := make(map[*node][]*order, 1)
	for _, o := range orders {
		n, err := d.at(ctx, o.key)
		if err != nil {
			o.result.Err = driver.Unsent(err)
			d.ring()
			continue
		}
		if o.said > 0 && n.sharded.Load() {
			o.args[o.said] = "SPUBLISH"
		}
		groups[n] = append(groups[n], o)
	}
	for n, group := range groups {
		if len(group) == 1 && !w.on {
			sendAll(ctx, n.client, group)
		} else {
			n.batch(ctx, group, w)
		}
		n.review(ctx, group)
		if d.cluster != nil {
			d.follow(ctx, n, group, w)
		}
	}
}

// batch runs orders, and waits for replicas, on one connection.
func (n *node) batch(ctx context.Context, orders []*order, w wait) {
	conn := n.client.Conn()
	defer func() { _ = conn.Close() }()
	sendAll(ctx, conn, orders)
	w.wait(ctx, conn, orders)
}

// wait waits for replicas to acknowledge what has run on a connection.
func (w wait) wait(ctx context.Context, conn *redis.Conn, orders []*order) {
	ran := slices.DeleteFunc(slices.Clone(orders), func(o *order) bool { return o.result.Err != nil })
	if !w.on || len(ran) == 0 {
		return
	}
	// It can be sent again only on this connection. On another it would count
	// what it never waited for.
	acked, err := conn.Wait(ctx, w.replicas, max(w.timeout, time.Millisecond)).Result()
	for _, o := range ran {
		if o.result.Acked = int(acked); err != nil {
			// They ran. Who knows of it is open, and if the server was demoted
			// meanwhile, whether anybody will.
			err := classify(err)
			o.result = driver.Result{Err: &driver.Error{Class: driver.Ambiguous, Code: driver.CodeOf(err), Err: err}}
		}
	}
}

// follow runs orders again whose keys live elsewhere than was believed.
func (d *Driver) follow(ctx context.Context, n *node, orders []*order, w wait) {
	for _, o := range orders {
		if ctx.Err() != nil {
			return
		}
		moved, isMoved := redis.IsMovedError(o.err)
		asked, isAsked := redis.IsAskError(o.err)
		var next *node
		switch {
		case isMoved:
			next = d.nodeAt(moved)
		case isAsked:
			next = d.nodeAt(asked)
		case unreached(o.err): // somebody may have taken over
			d.reload(ctx)
			if now, err := d.at(ctx, o.key); err == nil && now != n {
				now.again(ctx, o, false, w)
			}
			continue
		default:
			continue
		}
		d.ring()
		if next != nil {
			next.again(ctx, o, isAsked, w)
			continue
		}
		// Only go-redis can reach that node yet. Nobody waits for replicas there.
		cmd := o.command(ctx, true)
		_ = d.cluster.Process(ctx, once{cmd})
		o.take(cmd)
	}
}

// again runs an order that was sent here from elsewhere. With asking, it
// concerns a slot that the node is about to take over.
func (n *node) again(ctx context.Context, o *order, asking bool, w wait) {
	defer n.review(ctx, []*order{o})
	conn := n.client.Conn()
	defer func() { _ = conn.Close() }() // before the review, which needs one, too
	if asking {
		if err := conn.Process(ctx, once{redis.NewCmd(ctx, "asking")}); err != nil {
			o.result.Err = driver.Unsent(classify(err))
			return
		}
	}
	cmd := o.command(ctx, true)
	_ = conn.Process(ctx, once{cmd})
	o.take(cmd)
	w.wait(ctx, conn, []*order{o})
}

// reply turns what go-redis has read into a reply.
func reply(v any) (driver.Reply, error) {
	switch v := v.(type) {
	case nil:
		return driver.Reply{}, nil
	case int64:
		return driver.Reply{Type: driver.Int, Int: v}, nil
	case string:
		return driver.Reply{Type: driver.Str, Str: v}, nil
	case []any:
		list := make([]driver.Reply, len(v))
		for i := range v {
			var err error
			if list[i], err = reply(v[i]); err != nil {
				return driver.Reply{}, err
			}
		}
		return driver.Reply{Type: driver.List, List: list}, nil
	}
	return driver.Reply{}, &driver.Error{Class: driver.Fatal, Err: errors.New("reply of a type that no script returns")}
}
