package inspect

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Client is the client of an owner: a process that uses Holdfast or Redisson. A
// client of Holdfast says who it is, unless it is anonymous or lacks the permission.
// Of a client of Redisson, only the id is known.
type Client struct {
	ID      string // the first part of its owners
	Java    bool   // it uses Redisson
	Host    string // the rest is empty if it is not known
	PID     int
	Program string
	Version string // of the program
	Pod     string
	Label   string    // see holdfast.Options.Label
	Library string    // such as "holdfast v0.1.0"
	Since   time.Time // when it was opened, by its own clock
}

// Known reports whether the client has said who it is.
func (c *Client) Known() bool { return c != nil && c.Library != "" }

// String returns the client in a few words: "api-7f9 (pid 12)", "Redisson 0b7a5a0e" or
// "client 0b7a5a0e".
func (c *Client) String() string {
	switch {
	case c == nil:
		return "unknown"
	case c.Java:
		return "Redisson " + script.ShortID(c.ID)
	}
	said := script.Client{Host: c.Host, PID: c.PID, Program: c.Program, Pod: c.Pod, Label: c.Label, Library: c.Library}
	return said.Text(c.ID)
}

// isJava reports whether an id is that of a client of Redisson. Those are random UUIDs of
// version 4, and those of Holdfast are of version 8.
func isJava(id string) bool { return len(id) == 36 && id[14] == '4' }

// clients reads what clients say about themselves.
type clients struct {
	driver driver.Driver
	known  map[string]*Client // by id
}

// find reads what is not known yet. Errors are not reported: what a client says about
// itself is not essential.
func (cs *clients) find(ctx context.Context, ids []string) {
	if cs.known == nil {
		cs.known = make(map[string]*Client)
	}
	nodes := make(map[string][]string)
	for _, id := range ids {
		if cs.known[id] == nil {
			cs.known[id] = &Client{ID: id, Java: isJava(id)}
			if !isJava(id) {
				node := cs.driver.Place(script.LookAtClient(id).Keys[0]).Node
				nodes[node] = append(nodes[node], id)
			}
		}
	}
	for _, ids := range nodes {
		calls := make([]driver.Call, len(ids))
		for i, id := range ids {
			calls[i] = script.LookAtClient(id)
		}
		for i, r := range cs.driver.DoMany(ctx, calls) {
			if r.Err != nil {
				continue
			}
			if said, ok, err := script.DecodeClient(r.Reply); err == nil && ok {
				*cs.known[ids[i]] = newClient(ids[i], said)
			}
		}
	}
}

func newClient(id string, said script.Client) Client {
	c := Client{ID: id, Host: said.Host, PID: said.PID, Program: said.Program, Version: said.Version, Pod: said.Pod, Label: said.Label, Library: said.Library}
	if said.Since > 0 {
		c.Since = time.UnixMilli(said.Since)
	}
	return c
}

// name sets the clients of all holders and waiters of some locks.
func (cs *clients) name(ctx context.Context, locks []Lock) {
	var ids []string
	each := func(f func(owner string, c **Client)) {
		for i := range locks {
			for j := range locks[i].Holders {
				f(locks[i].Holders[j].Owner, &locks[i].Holders[j].Client)
			}
			for j := range locks[i].Queue {
				f(locks[i].Queue[j].Owner, &locks[i].Queue[j].Client)
			}
		}
	}
	each(func(owner string, _ **Client) {
		if id := script.ClientOf(owner); id != "" {
			ids = append(ids, id)
		}
	})
	cs.find(ctx, ids)
	each(func(owner string, c **Client) { *c = cs.known[script.ClientOf(owner)] })
}

// Client returns what the client of an owner says about itself. It returns nil if the
// owner is not one of Holdfast or Redisson, such as the id of a permit.
func (i *Inspector) Client(ctx context.Context, owner string) (*Client, error) {
	all, err := i.ClientsOf(ctx, owner)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// ClientsOf is like Client for several owners.
func (i *Inspector) ClientsOf(ctx context.Context, owners ...string) ([]*Client, error) {
	if err := i.ready(ctx); err != nil {
		return nil, explain("find clients", err)
	}
	cs, all := clients{driver: i.driver}, make([]*Client, len(owners))
	var ids []string
	for _, owner := range owners {
		if id := script.ClientOf(owner); id != "" {
			ids = append(ids, id)
		}
	}
	cs.find(ctx, ids)
	for n, owner := range owners {
		all[n] = cs.known[script.ClientOf(owner)]
	}
	return all, nil
}

// Clients lists the clients that have said who they are, in no particular order. They
// need not hold a lock. A client that has crashed is listed for up to ten minutes.
// Clients scans the keys of all masters, as [Inspector.Locks] does, and returns the
// same errors.
func (i *Inspector) Clients(ctx context.Context, q Query) iter.Seq2[Client, error] {
	return list(ctx, i, q, "clients", script.ClientWalk(), func(ids []string) (found []Client, err error) {
		cs := clients{driver: i.driver}
		cs.find(ctx, ids)
		for _, id := range ids {
			if c := cs.known[id]; c.Known() {
				found = append(found, *c)
			}
		}
		return found, nil
	})
}
