package memory

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A Driver connects clients of Holdfast to a [Server] in the same process.
type Driver struct {
	server *Server
	db     int
	node   string
}

var _ driver.Driver = (*Driver)(nil)

// Driver returns a driver for database 0 of the server. Closing it leaves the server as it is.
func (s *Server) Driver() *Driver { return &Driver{server: s, node: "memory"} }

// Do implements driver.Driver.
func (d *Driver) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	if err := ctx.Err(); err != nil {
		return driver.Reply{}, driver.Unsent(err)
	}
	t := d.server.begin(d.db)
	defer t.end()
	if d.server.cut != nil {
		return driver.Reply{}, driver.Unsent(d.server.cut)
	}
	r, err := t.eval(c.Script.SHA, c.Script.Source, c.Keys, c.Args)
	if err != nil {
		return driver.Reply{}, driver.ServerError(err.Error())
	}
	return toReply(r), nil
}

func toReply(r any) driver.Reply {
	switch r := r.(type) {
	case int64:
		return driver.Reply{Type: driver.Int, Int: r}
	case string:
		return driver.Reply{Type: driver.Str, Str: r}
	case status:
		return driver.Reply{Type: driver.Str, Str: string(r)}
	case pairs:
		return toReply([]any(r))
	case []any:
		all := driver.Reply{Type: driver.List, List: make([]driver.Reply, len(r))}
		for i, e := range r {
			all.List[i] = toReply(e)
		}
		return all
	default:
		return driver.Reply{}
	}
}

// DoMany implements driver.Driver.
func (d *Driver) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	for i, c := range calls {
		results[i].Reply, results[i].Err = d.Do(ctx, c)
	}
	return results
}

// DoAcked implements driver.Driver. If there are too few replicas, it waits for the whole
// timeout, as a server does.
func (d *Driver) DoAcked(ctx context.Context, calls []driver.Call, replicas int, timeout time.Duration) []driver.Result {
	results := d.DoMany(ctx, calls)
	d.server.mu.Lock()
	acked := d.server.replicas
	d.server.mu.Unlock()
	if acked < replicas {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	for i := range results {
		results[i].Acked = min(acked, replicas)
	}
	return results
}

// Listen implements driver.Driver.
func (d *Driver) Listen(h driver.Handler) driver.Listener { return d.server.listen(h) }

// Place implements driver.Driver.
func (d *Driver) Place(string) driver.Place {
	d.server.mu.Lock()
	defer d.server.mu.Unlock()
	return driver.Place{Node: d.node, Term: d.server.term, Replicas: d.server.replicas}
}

// Watch implements driver.Driver.
func (d *Driver) Watch(f func()) (stop func()) {
	s := d.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches++
	n := s.watches
	s.watchers[n] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, n)
	}
}

// Facts implements driver.Driver.
func (d *Driver) Facts(_ context.Context, nodes ...string) []driver.Facts {
	if len(nodes) > 0 && !slices.Contains(nodes, d.node) {
		return []driver.Facts{{Node: nodes[0], Err: driver.Unsent(errors.New("no server " + strconv.Quote(nodes[0])))}}
	}
	t := d.server.begin(d.db)
	defer t.end()
	if d.server.cut != nil {
		return []driver.Facts{{Node: d.node, Err: driver.Unsent(d.server.cut)}}
	}
	f := driver.NewFacts(d.server.info(t.now))
	f.Node, f.Database, f.Clock, f.Settings = d.node, d.db, d.server.offset, make(map[string]string)
	for _, name := range driver.SettingNames {
		if v, ok := settings[name]; ok {
			f.Settings[name] = v
		}
	}
	return []driver.Facts{f}
}

// Close implements driver.Driver. It does nothing: the server stays.
func (*Driver) Close() error { return nil }
