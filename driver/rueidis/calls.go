package rueidis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// do runs one script. If asking is set, it sends ASKING first, because the node
// is still importing the slot.
func (n *node) do(ctx context.Context, call driver.Call, asking bool) driver.Result {
	if !n.mayBlock() {
		return n.one(ctx, call, asking)
	}
	call = clone(call) // the call may outlive this method
	limited, cancel := context.WithTimeout(ctx, n.c.Timeout)
	defer cancel()
	r := runDetached(limited, func(err error) driver.Result { return driver.Result{Err: err} },
		func() driver.Result { return n.one(limited, call, asking) })
	r.Err = n.timeoutCause(ctx, r.Err)
	return r
}

func (n *node) one(ctx context.Context, call driver.Call, asking bool) driver.Result {
	if c := n.conn.Load(); asking || c == nil || !c.known.Load() {
		return n.many(ctx, []driver.Call{call}, asking)[0]
	}
	client := *n.client.Load()
	done := n.newCallContext(ctx)
	resp := client.Do(done, n.evalsha(call))
	if isNoScript(resp) {
		resp = client.Do(done, n.eval(call))
	}
	if errors.Is(resp.Error(), errUnidentified) {
		done.conn.known.Store(false)
		done.release()
		return n.many(ctx, []driver.Call{call}, asking)[0]
	}
	defer done.release()
	return n.result(ctx, done, call, resp)
}

// doMany runs several scripts as one pipeline.
func (n *node) doMany(ctx context.Context, calls []driver.Call, asking bool) []driver.Result {
	if !n.mayBlock() {
		return n.many(ctx, calls, asking)
	}
	calls = cloneAll(calls)
	limited, cancel := context.WithTimeout(ctx, n.c.Timeout)
	defer cancel()
	results := runDetached(limited, func(err error) []driver.Result { return failed(calls, err) },
		func() []driver.Result { return n.many(limited, calls, asking) })
	for i := range results {
		results[i].Err = n.timeoutCause(ctx, results[i].Err)
	}
	return results
}

func (n *node) many(ctx context.Context, calls []driver.Call, asking bool) (results []driver.Result) {
	for range 3 { // usually one attempt, two if the connection has just broken
		results = n.once(ctx, calls, asking)
		if !errors.Is(results[0].Err, errUnidentified) {
			break
		}
	}
	return results
}

func (n *node) once(ctx context.Context, calls []driver.Call, asking bool) []driver.Result {
	// No script is sent before the server is identified. No connection is opened
	// with the context of one call: if that call were cancelled, all callers that
	// wait for the connection would fail.
	if err := n.ensureIdentified(ctx); err != nil {
		return failed(calls, err)
	}
	client := *n.client.Load()
	done := n.newCallContext(ctx)
	defer done.release()
	multi := make([]rueidis.Completed, 0, 2*len(calls))
	for _, call := range calls {
		if asking {
			multi = append(multi, n.b().Asking().Build())
		}
		multi = append(multi, n.evalsha(call))
	}
	resps := client.DoMulti(done, multi...)
	if errors.Is(resps[0].Error(), errUnidentified) {
		done.conn.known.Store(false)
		return failed(calls, errUnidentified)
	}
	results := make([]driver.Result, len(calls))
	for i, call := range calls {
		step := 1 + btoi(asking)
		resp := resps[i*step+step-1]
		if isNoScript(resp) {
			if asking {
				resp = client.DoMulti(done, n.b().Asking().Build(), n.eval(call))[1]
			} else {
				resp = client.Do(done, n.eval(call))
			}
		}
		results[i] = n.result(ctx, done, call, resp)
	}
	return results
}

// doAcked runs several scripts and waits for replicas. It has a connection for
// itself while it runs.
func (n *node) doAcked(ctx context.Context, calls []driver.Call, replicas int, timeout time.Duration, asking bool) []driver.Result {
	calls = cloneAll(calls)
	limited, cancel := context.WithTimeout(context.WithValue(ctx, ackedKey{}, true), n.c.Timeout+timeout)
	defer cancel()
	results := runDetached(limited, func(err error) []driver.Result { return failed(calls, err) }, func() []driver.Result {
		if err := n.ensureIdentified(limited); err != nil {
			return failed(calls, err)
		}
		results := n.acked(limited, calls, replicas, timeout, asking)
		// On a new connection, another server may have answered.
		if err := n.ensureIdentified(limited); err != nil {
			return failed(calls, driver.Unknown(err))
		}
		return results
	})
	for i := range results {
		results[i].Err = n.timeoutCause(ctx, results[i].Err)
	}
	return results
}

func (n *node) acked(ctx context.Context, calls []driver.Call, replicas int, timeout time.Duration, asking bool) []driver.Result {
	client := *n.client.Load()
	wait := func() rueidis.Completed {
		return n.b().Wait().Numreplicas(int64(replicas)).Timeout(max(timeout.Milliseconds(), 1)).Build()
	}
	send := func(calls []driver.Call, eval func(driver.Call) rueidis.Completed) []rueidis.RedisResult {
		var multi []rueidis.Completed
		for _, call := range calls {
			if asking {
				multi = append(multi, n.b().Asking().Build())
			}
			multi = append(multi, eval(call))
		}
		return client.DoMulti(ctx, append(multi, wait())...)
	}
	step := 1 + btoi(asking)
	resps := send(calls, n.evalsha)
	results := make([]driver.Result, len(calls))
	for i, call := range calls {
		resp, acked := resps[i*step+step-1], resps[len(resps)-1]
		if isNoScript(resp) {
			again := send([]driver.Call{call}, n.eval)
			resp, acked = again[step-1], again[len(again)-1]
		}
		r := driver.Result{}
		if r.Reply, r.Err = n.decode(call, resp); r.Err == nil {
			k, err := acked.AsInt64()
			if err != nil { // the script ran, but the number of replicas is unknown
				r = driver.Result{Err: n.waitError(err)}
			}
			r.Acked = int(k)
		}
		results[i] = r
	}
	return results
}

// waitError returns the error of a call whose WAIT failed. A server that has
// become a replica refuses WAIT. This is not permanent, and the script may have
// run before, so the error is ambiguous.
func (n *node) waitError(err error) error {
	err = n.classify(err)
	if strings.Contains(err.Error(), "WAIT cannot be used with replica") { // rueidis has removed the code ERR
		return n.replied(&driver.Error{Class: driver.Ambiguous, Code: "READONLY", Err: errors.New("the server is a replica now")})
	}
	if driver.CodeOf(err) == "ERR" && !strings.Contains(err.Error(), "unknown command") {
		return driver.Unknown(err)
	}
	return err
}

func (n *node) evalsha(c driver.Call) rueidis.Completed {
	return n.b().Evalsha().Sha1(c.Script.SHA).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(n.args(c)...).Build()
}

func (n *node) eval(c driver.Call) rueidis.Completed {
	return n.b().Eval().Script(c.Script.Source).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(n.args(c)...).Build()
}

// args returns the arguments of a call, with SPUBLISH in place of PUBLISH if the
// node publishes to sharded channels.
func (n *node) args(c driver.Call) []string {
	i := c.Script.Publish - 1
	if i < 0 || !n.publishesSharded() || i >= len(c.Args) || c.Args[i] != "PUBLISH" {
		return c.Args
	}
	args := slices.Clone(c.Args)
	args[i] = "SPUBLISH"
	return args
}

func (n *node) publishesSharded() bool {
	return n.c.Mode == Cluster && (n.c.Sharded == ShardedOn || n.c.Sharded == ShardedAuto && n.report.sharded.Load())
}

func isNoScript(r rueidis.RedisResult) bool {
	e, ok := rueidis.IsRedisErr(r.Error())
	return ok && e.IsNoScript()
}

// result decodes the answer to a call.
func (n *node) result(ctx context.Context, done *callContext, call driver.Call, resp rueidis.RedisResult) driver.Result {
	reply, err := n.decode(call, resp)
	if err == nil {
		done.answered()
	}
	return driver.Result{Reply: reply, Err: n.timeoutCause(ctx, err)}
}

func (n *node) decode(call driver.Call, r rueidis.RedisResult) (driver.Reply, error) {
	m, err := r.ToMessage()
	if e, ok := rueidis.IsRedisErr(err); ok && !e.IsNil() {
		return driver.Reply{}, n.replied(driver.ScriptError(call.Script, e.Error()))
	}
	if err != nil && !rueidis.IsRedisNil(err) {
		return driver.Reply{}, n.classify(err)
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
	return driver.Reply{}, &driver.Error{Class: driver.Fatal, Err: errors.New("unexpected reply type: scripts return no such value")}
}

// timeoutCause returns the error of a call without an answer. It distinguishes
// the caller's deadline from the driver's own timeout: rueidis sees only the
// deadline of the callContext.
func (n *node) timeoutCause(ctx context.Context, err error) error {
	if err == nil || driver.ClassOf(err) != driver.Ambiguous {
		return err
	}
	if ctx.Err() != nil {
		return driver.Unknown(ctx.Err())
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= 0 { // the context's timer has not fired yet
		return driver.Unknown(context.DeadlineExceeded)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return &driver.Error{Class: driver.Ambiguous, Err: fmt.Errorf("no answer within %v", n.c.Timeout)}
	}
	return err
}

func clone(c driver.Call) driver.Call {
	c.Keys, c.Args = slices.Clone(c.Keys), slices.Clone(c.Args)
	return c
}

func cloneAll(calls []driver.Call) []driver.Call {
	calls = slices.Clone(calls)
	for i, c := range calls {
		calls[i] = clone(c)
	}
	return calls
}

func failed(calls []driver.Call, err error) []driver.Result {
	return slices.Repeat([]driver.Result{{Err: err}}, len(calls))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
