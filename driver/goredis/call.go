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

// A command is a call in progress. It has a copy of what it needs from the
// [driver.Call], since it may outlive it.
type command struct {
	script     *driver.Script
	key        string
	args       []any // EVALSHA and its arguments
	publishArg int   // index in args of the publish command, or zero
	cmdErr     error // the error of go-redis
	result     driver.Result
}

func newCommand(call driver.Call) *command {
	c := &command{script: call.Script, args: make([]any, 0, 3+len(call.Keys)+len(call.Args))}
	c.args = append(c.args, "evalsha", call.Script.SHA, len(call.Keys))
	for _, k := range call.Keys {
		c.args = append(c.args, k)
	}
	if len(call.Keys) > 0 {
		c.key = call.Keys[0]
	}
	if i := call.Script.Publish; i > 0 && i <= len(call.Args) && call.Args[i-1] == "PUBLISH" {
		c.publishArg = len(c.args) + i - 1
	}
	for _, a := range call.Args {
		c.args = append(c.args, a)
	}
	return c
}

// noRetry keeps go-redis from retrying a command, whatever its options say.
type noRetry struct{ redis.Cmder }

func (noRetry) NoRetry() bool { return true }

// cmd returns the command for go-redis: EVAL if source is set, EVALSHA otherwise.
func (c *command) cmd(ctx context.Context, source bool) *redis.Cmd {
	args := c.args
	if source {
		args = slices.Clone(args) // hooks may still read the first one
		args[0], args[1] = "eval", c.script.Source
	}
	return redis.NewCmd(ctx, args...)
}

// setResult records the result of the command.
func (c *command) setResult(cmd *redis.Cmd) {
	var v any
	v, c.cmdErr = cmd.Result()
	c.result = driver.Result{}
	switch {
	case errors.Is(c.cmdErr, redis.Nil):
		c.cmdErr = nil
	case c.cmdErr == nil:
		c.result.Reply, c.result.Err = reply(v)
	default:
		if c.result.Err = classify(c.cmdErr); driver.CodeOf(c.result.Err) == "ERR" {
			c.result.Err = driver.ScriptError(c.script, c.cmdErr.Error())
		}
	}
}

// A processor is a connection or a pool of connections.
type processor interface {
	Process(context.Context, redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// send runs commands. Several commands form one pipeline.
func send(ctx context.Context, p processor, commands []*command, source func(*command) bool) {
	if len(commands) == 1 {
		cmd := commands[0].cmd(ctx, source(commands[0]))
		_ = p.Process(ctx, noRetry{cmd})
		commands[0].setResult(cmd)
		return
	}
	pipe := p.Pipeline()
	cmds := make([]*redis.Cmd, len(commands))
	for i, c := range commands {
		cmds[i] = c.cmd(ctx, source(c))
		_ = pipe.Process(ctx, noRetry{cmds[i]})
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, c := range commands {
		c.setResult(cmds[i])
	}
}

// sendAll runs commands with EVALSHA. It runs those whose script the server does
// not have again with EVAL.
func sendAll(ctx context.Context, p processor, commands []*command) {
	send(ctx, p, commands, func(*command) bool { return false })
	var unknown []*command
	for _, c := range commands {
		if redis.HasErrorPrefix(c.cmdErr, "NOSCRIPT") {
			unknown = append(unknown, c)
		}
	}
	if len(unknown) == 0 {
		return
	}
	sent := make(map[*driver.Script]bool)
	send(ctx, p, unknown, func(c *command) bool {
		first := !sent[c.script]
		sent[c.script] = true
		return first
	})
}

// A replicaWait says how many replicas to wait for and how long. The zero value
// means no wait.
type replicaWait struct {
	on       bool
	replicas int
	timeout  time.Duration
}

// run runs calls and waits for replicas. It returns at the latest when ctx is
// done.
func (d *Driver) run(ctx context.Context, calls []driver.Call, w replicaWait) []driver.Result {
	if len(calls) == 0 {
		return nil
	}
	commands := make([]*command, len(calls))
	for i, c := range calls {
		commands[i] = newCommand(c)
	}
	// go-redis dials several times and waits up to ten seconds too long for the
	// reply to WAIT, so the call needs a limit of its own.
	limit := w.timeout + 2*d.timeout()
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	failed := func(err error) []driver.Result {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = &driver.Error{Class: driver.Ambiguous, Err: fmt.Errorf("no answer within %v", limit)}
		}
		return slices.Repeat([]driver.Result{{Err: err}}, len(commands))
	}
	results := runDetached(bounded, d, failed, func() []driver.Result {
		d.dispatch(bounded, commands, w)
		results := make([]driver.Result, len(commands))
		for i, c := range commands {
			results[i] = c.result
		}
		return results
	})
	for i := range results {
		results[i].Err = d.forCaller(ctx, results[i].Err)
	}
	return results
}

// dispatch sends commands to the nodes of their keys. This is a single node,
// unless some keys have just moved.
func (d *Driver) dispatch(ctx context.Context, commands []*command, w replicaWait) {
	d.scanSoon()
	groups := make(map[*node][]*command, 1)
	for _, c := range commands {
		n, err := d.at(ctx, c.key)
		if err != nil {
			c.result.Err = driver.Unsent(err)
			d.scanNow()
			continue
		}
		if c.publishArg > 0 && n.sharded.Load() {
			c.args[c.publishArg] = "SPUBLISH"
		}
		groups[n] = append(groups[n], c)
	}
	for n, group := range groups {
		if len(group) == 1 && !w.on {
			sendAll(ctx, n.client, group)
		} else {
			n.batch(ctx, group, w)
		}
		n.verify(ctx, group)
		if d.cluster != nil {
			d.follow(ctx, n, group, w)
		}
	}
}

// batch runs commands and waits for replicas on one connection.
func (n *node) batch(ctx context.Context, commands []*command, w replicaWait) {
	conn := n.client.Conn()
	defer func() { _ = conn.Close() }()
	sendAll(ctx, conn, commands)
	w.wait(ctx, conn, commands)
}

// wait waits for replicas to acknowledge what has run on a connection.
func (w replicaWait) wait(ctx context.Context, conn *redis.Conn, commands []*command) {
	ran := slices.DeleteFunc(slices.Clone(commands), func(c *command) bool { return c.result.Err != nil })
	if !w.on || len(ran) == 0 {
		return
	}
	// WAIT must run on this connection: it counts the replicas that have the
	// writes of its own connection.
	acked, err := conn.Wait(ctx, w.replicas, max(w.timeout, time.Millisecond)).Result()
	for _, c := range ran {
		if c.result.Acked = int(acked); err != nil {
			// The scripts ran, but it is unknown whether their writes were
			// replicated. If the server was demoted, they may be lost.
			err := classify(err)
			c.result = driver.Result{Err: &driver.Error{Class: driver.Ambiguous, Code: driver.CodeOf(err), Err: err}}
		}
	}
}

// follow runs commands again on the nodes that serve their keys, if they failed
// with a redirect or the node could not be reached.
func (d *Driver) follow(ctx context.Context, n *node, commands []*command, w replicaWait) {
	for _, c := range commands {
		if ctx.Err() != nil {
			return
		}
		moved, isMoved := redis.IsMovedError(c.cmdErr)
		asked, isAsked := redis.IsAskError(c.cmdErr)
		var next *node
		switch {
		case isMoved:
			next = d.nodeAt(moved)
		case isAsked:
			next = d.nodeAt(asked)
		case unreached(c.cmdErr): // another node may have taken over
			d.reload(ctx)
			if now, err := d.at(ctx, c.key); err == nil && now != n {
				now.rerun(ctx, c, false, w)
			}
			continue
		default:
			continue
		}
		d.scanNow()
		if next != nil {
			next.rerun(ctx, c, isAsked, w)
			continue
		}
		// The driver does not know this node yet, but go-redis does. There is no
		// wait for replicas in this case.
		cmd := c.cmd(ctx, true)
		_ = d.cluster.Process(ctx, noRetry{cmd})
		c.setResult(cmd)
	}
}

// rerun runs a command that was redirected to this node. If asking is set, it
// sends ASKING first, because the node is still importing the slot.
func (n *node) rerun(ctx context.Context, c *command, asking bool, w replicaWait) {
	defer n.verify(ctx, []*command{c})
	conn := n.client.Conn()
	defer func() { _ = conn.Close() }() // before verify, which needs a connection, too
	if asking {
		if err := conn.Process(ctx, noRetry{redis.NewCmd(ctx, "asking")}); err != nil {
			c.result.Err = driver.Unsent(classify(err))
			return
		}
	}
	cmd := c.cmd(ctx, true)
	_ = conn.Process(ctx, noRetry{cmd})
	c.setResult(cmd)
	w.wait(ctx, conn, []*command{c})
}

// reply converts a result of go-redis.
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
	return driver.Reply{}, &driver.Error{Class: driver.Fatal, Err: errors.New("unexpected reply type: scripts return no such value")}
}
