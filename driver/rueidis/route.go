package rueidis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// maxRedirects limits how often a call is redirected. One redirect is enough
// after a slot has moved. More happen only while the servers disagree.
const maxRedirects = 5

// follow runs a call again on the node that serves its key, if the call failed
// with a redirect.
func (d *Driver) follow(ctx context.Context, n *node, r *driver.Result, run func(n *node, asking bool) driver.Result) {
	for range maxRedirects {
		code := driver.CodeOf(r.Err)
		if code != "MOVED" && code != "ASK" || d.c.Mode != Cluster {
			break
		}
		slot, addr, ok := redirect(r.Err, n.addr)
		if !ok || ctx.Err() != nil {
			break
		}
		n = d.node(addr)
		if code == "MOVED" {
			d.moved(slot, n)
		}
		*r = run(n, code == "ASK")
	}
	if code := driver.CodeOf(r.Err); d.c.Mode != Cluster && (code == "MOVED" || code == "ASK") {
		r.Err = &driver.Error{Class: driver.Fatal, Code: code, Err: fmt.Errorf("%s is a cluster node that does not serve this key: use redis-cluster://", n.addr)}
	}
	switch driver.CodeOf(r.Err) {
	case "":
		if r.Err != nil && !errors.Is(ctx.Err(), context.Canceled) { // a cancelled call says nothing about the server
			d.scanNow()
		}
	case "READONLY", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "LOADING", "UNBLOCKED":
		d.scanNow()
	}
	r.Err = d.forCaller(ctx, r.Err)
}

// redirect parses the redirect that the node at from has returned.
func redirect(err error, from string) (slot int, addr string, ok bool) {
	words := strings.Fields(err.Error()) // MOVED 3999 127.0.0.1:6381
	if len(words) < 3 {
		return 0, "", false
	}
	slot, bad := strconv.Atoi(words[1])
	if bad != nil || slot < 0 || slot >= driver.Slots {
		return 0, "", false
	}
	return slot, at(words[2], from), true
}

// at completes an address that the node at from has returned. An address without
// a host is on the host of that node.
func at(addr, from string) string {
	i := strings.LastIndexByte(addr, ':') // servers write IPv6 addresses without brackets
	host, port := strings.Trim(addr[:max(i, 0)], "[]"), addr[i+1:]
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(from)
	}
	return net.JoinHostPort(host, port)
}

// moved records the new master of a slot.
func (d *Driver) moved(slot int, n *node) {
	d.mu.Lock()
	old := d.table.Load()
	if old.slots == nil || old.slots[slot] == n {
		d.mu.Unlock()
		return
	}
	t := &table{masters: old.masters, slots: slices.Clone(old.slots)}
	t.slots[slot] = n
	if !slices.Contains(t.masters, n) {
		n.term.Store(d.nextTerm())
		t.masters = append(slices.Clone(t.masters), n)
		slices.SortFunc(t.masters, byAddr)
	}
	d.table.Store(t)
	d.mu.Unlock()
	d.changed()
	d.scanNow() // other slots may have moved, too
}

// noServer returns the error of a call whose key is served by no known server.
func (d *Driver) noServer(ctx context.Context) error {
	d.scanNow()
	if t := d.table.Load(); t.conflict != nil {
		return d.forCaller(ctx, driver.Unsent(t.conflict))
	}
	return d.forCaller(ctx, &driver.Error{Class: driver.Definite, Code: "CLUSTERDOWN", Err: errors.New("no server is known for this key")})
}
