package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// An inspector checks the permissions of the user on one server.
type inspector struct {
	ctx    context.Context
	d      driver.Driver
	w      Wants
	server driver.Facts
	names  []string // names of objects on this server
	broken bool     // calls fail for other reasons than permissions
	fs     []Finding
}

func (i *inspector) find(s Severity, text string, rights ...string) {
	i.fs = append(i.fs, Finding{i.server.Node, s, "rights", text, grant(rights...)})
}

// findFeature reports permissions that only optional features need.
func (i *inspector) findFeature(text string, rights ...string) {
	i.fs = append(i.fs, Finding{i.server.Node, Info, "rights", text, grantFeature(rights...)})
}

// rights returns the findings about the permissions of the user.
func rights(ctx context.Context, d driver.Driver, w Wants, facts []driver.Facts, names []string) []Finding {
	var fs []Finding
	for _, f := range facts {
		if f.Err != nil && driver.CodeOf(f.Err) != "NOPERM" && !strings.Contains(f.Err.Error(), "unknown command") {
			continue
		}
		if f.Unsupported() != nil {
			continue
		}
		i := &inspector{ctx: ctx, d: d, w: w, server: f}
		for _, n := range names {
			if len(facts) == 1 || d.Place(n).Node == f.Node {
				i.names = append(i.names, n)
			}
		}
		i.look()
		fs = append(fs, i.fs...)
	}
	return fs
}

func (i *inspector) look() {
	name, named := i.subject()
	if !i.scripts(name) {
		return
	}
	i.acks(name)
	unknown := false
	if named {
		for _, n := range i.names {
			i.keys(n)
		}
	} else {
		r, _ := i.refused(script.ProbeKey(name, false))
		unknown = r == script.KeyRefused
	}
	if refused := i.channels(name); !named && (unknown || refused) {
		i.fs = append(i.fs, Finding{i.server.Node, Info, "rights", "the user has permission for some names only, and the check was given no names", "pass the names of some objects that the program uses"})
	}
}

// subject returns the name of an object on the server. It prefers a name that
// the caller has given.
func (i *inspector) subject() (name string, named bool) {
	if len(i.names) > 0 {
		return i.names[0], true
	}
	for n := range 1 << 14 {
		if name = "holdfast-check-" + strconv.Itoa(n); i.d.Place(name).Node == i.server.Node {
			break
		}
	}
	return name, false
}

// refused runs a call and returns what the user lacks permission for, and the
// command if a command is refused. It reports any other error as a finding, and
// the check of the server then stops.
func (i *inspector) refused(c driver.Call) (r script.Refusal, command string) {
	_, err := i.d.Do(i.ctx, c)
	return i.answer(err)
}

// answer returns what the user lacks permission for, according to the error of
// a call.
func (i *inspector) answer(err error) (r script.Refusal, command string) {
	if err == nil {
		return script.NotRefused, ""
	}
	said := strings.TrimPrefix(err.Error(), driver.ErrRefused.Error()+": ")
	if r, command = script.Refused(said); r == script.NotRefused && !i.broken {
		i.broken = true
		f := Finding{i.server.Node, Danger, "answer", "the server refuses a script that changes nothing: " + err.Error(), "fix what the server reports, so that it accepts writes"}
		if lacks := driver.ErrNoLua.Error(); errors.Is(err, driver.ErrNoLua) {
			f.Topic, f.Text, f.Change = "commands", lacks, strings.TrimPrefix(err.Error(), lacks+": ")
		}
		i.fs = append(i.fs, f)
	}
	return r, command
}

// scripts checks whether the user may run scripts, and commands in scripts. It
// reports whether scripts can be run.
func (i *inspector) scripts(name string) bool {
	r, command := i.refused(script.ProbeKey(name, true))
	if r == script.CommandRefused {
		rights := []string{"+eval", "+evalsha"}
		if command != "" {
			rights = []string{"+" + command}
		}
		i.find(Danger, "the user lacks permission to run scripts, which all operations need", rights...)
	}
	if r == script.CommandRefused || i.broken {
		return false
	}
	if r == script.KeyRefused && i.server.Cluster {
		return true // without the key, no call reaches this node
	}
	rs, err := script.Probe(i.ctx, i.d, name, r != script.KeyRefused)
	if err != nil {
		i.answer(err)
		return false
	}
	i.commands(rs)
	i.missing(rs)
	if rs[len(script.Commands)] == script.CommandRefused {
		i.find(Danger, "the user lacks permission to publish: waiters are not notified when a lock is released", publishing(i.server)...)
	}
	return true
}

// commands reports the commands that the user may not run: one finding for the
// commands that all kinds need, one for each kind that needs more, and one for
// all features.
func (i *inspector) commands(rs []script.Refusal) {
	var users []string
	lacking := make(map[string][]script.Command)
	for n, cmd := range script.Commands {
		if rs[n] != script.CommandRefused {
			continue
		}
		if lacking[cmd.For] == nil {
			users = append(users, cmd.For)
		}
		lacking[cmd.For] = append(lacking[cmd.For], cmd)
	}
	var features, rights []string
	for _, user := range users {
		var names, grants []string
		for _, cmd := range lacking[user] {
			names, grants = append(names, cmd.Name()), append(grants, "+"+cmd.Name())
		}
		list := strings.Join(names, ", ")
		switch {
		case user == "":
			i.find(Danger, "the user lacks permission to run what all scripts need: "+list, grants...)
		case lacking[user][0].Feature == "":
			i.find(Warning, "the user lacks permission to run what "+user+" needs: "+list, grants...)
		default:
			features, rights = append(features, user+" ("+list+")"), append(rights, grants...)
		}
	}
	if features != nil {
		i.findFeature("locks work, but the user lacks permission to run what these need: "+strings.Join(features, "; "), rights...)
	}
}

// missing reports the commands that locks need and the server does not have.
// Redis before 6.2 has no HRANDFIELD, and scripts work without it.
func (i *inspector) missing(rs []script.Refusal) {
	var names []string
	for n, cmd := range script.Commands {
		if rs[n] == script.CommandMissing && cmd.For == "" && cmd.Name() != "hrandfield" {
			names = append(names, cmd.Name())
		}
	}
	change := "remove rename-command for these from the configuration of the server: scripts cannot use renamed commands"
	if rs[len(script.Commands)] == script.CommandMissing {
		names = append(names, "publish")
		if major, _, _ := release(i.server); i.server.Cluster && major < 7 {
			change = "use sharded=auto in the URL, or shardedSubscriptionMode: AUTO in the file, because servers before 7.0 have no SPUBLISH. If you do, " + change
		}
	}
	if names != nil {
		i.fs = append(i.fs, Finding{i.server.Node, Danger, "commands", "the server does not have what scripts need: " + strings.Join(names, ", "), change})
	}
}

// publishing returns the permissions to publish. ACL SETUSER refuses commands
// that the server does not have.
func publishing(server driver.Facts) []string {
	if major, _, _ := release(server); server.Cluster && major >= 7 {
		return []string{"+publish", "+spublish"}
	}
	return []string{"+publish"}
}

// acks checks whether the user may wait for replicas.
func (i *inspector) acks(name string) {
	c := script.ProbeKey(name, false)
	for _, r := range i.d.DoAcked(i.ctx, []driver.Call{c}, 1, time.Millisecond) {
		if r.Err == nil {
			continue
		}
		if what, command := script.Refused(r.Err.Error()); what != script.CommandRefused || command != "wait" && command != "" {
			continue
		}
		s, text := Danger, "the user lacks permission to wait for replicas: no lock can be acquired"
		if i.w.required() == 0 {
			s, text = Info, "the user lacks permission to wait for replicas; the replication mode does not need it"
		}
		i.find(s, text, "+wait")
	}
}

// keys checks the keys of objects with the given name.
func (i *inspector) keys(name string) {
	may := func(key string) bool {
		r, _ := i.refused(script.ProbeKey(key, false))
		return r != script.KeyRefused
	}
	if !may(name) {
		i.find(Danger, fmt.Sprintf("the user lacks permission for the key %q", name), "~"+script.Escape(name))
	}
	i.lacking(name, "~", "use some keys", func(u script.Uses) []string { return u.Keys }, may)
}

// lacking reports keys or channels of objects with the given name that the user
// lacks permission for: one finding for all kinds of objects, and one for
// features.
func (i *inspector) lacking(name, sign, to string, of func(script.Uses) []string, may func(string) bool) {
	text := func(by []string) string {
		return fmt.Sprintf("the user lacks permission to %s of %.80q, if it is one of: %s", to, name, strings.Join(by, "; "))
	}
	known := make(map[string]bool) // whether the user has permission, by pattern
	if by, patterns := i.patterns(name, sign, false, known, of, may); patterns != nil {
		i.find(Warning, text(by), patterns...)
	}
	if by, patterns := i.patterns(name, sign, true, known, of, may); patterns != nil {
		i.findFeature(text(by), patterns...)
	}
}

// patterns returns the patterns of keys or channels that the user lacks
// permission for, and the kinds of objects or features that need them.
func (i *inspector) patterns(name, sign string, features bool, known map[string]bool, of func(script.Uses) []string, may func(string) bool) (by, patterns []string) {
	escaped := script.UsesOf(script.Escape(name), i.server.Database)
	for n, u := range script.UsesOf(name, i.server.Database) {
		if (u.Feature != "") != features {
			continue
		}
		for m, what := range of(u) {
			p := sign + of(escaped[n])[m]
			if _, ok := known[p]; !ok {
				if known[p] = may(what); !known[p] {
					patterns = append(patterns, p)
				}
			}
			if !known[p] {
				by = append(by, u.By)
			}
		}
	}
	return slices.Compact(by), patterns
}

// channels checks the channels of all names, or of one probe name if there are
// none. It reports whether the channel of the probe name is refused.
func (i *inspector) channels(name string) (refused bool) {
	if len(i.names) == 0 {
		r, command := i.listen(name, script.ProbeChannel(name))
		i.subscribing(r, command)
		return r == script.ChannelRefused
	}
	of := func(u script.Uses) []string { return u.Channels }
	for _, n := range i.names {
		var all []string
		for _, u := range script.UsesOf(n, i.server.Database) {
			all = append(all, u.Channels...)
		}
		r, command := i.listen(n, all...)
		if i.subscribing(r, command) {
			break
		}
		if r != script.ChannelRefused {
			continue
		}
		i.lacking(n, "&", "listen to some channels", of, func(channel string) bool {
			r, _ := i.listen(n, channel)
			return r != script.ChannelRefused
		})
	}
	return false
}

// subscribing reports a command that listeners need and the user may not run.
func (i *inspector) subscribing(r script.Refusal, command string) bool {
	if r != script.CommandRefused {
		return false
	}
	i.find(Warning, "the user lacks permission to run "+command+": waiters poll instead of being notified", "+"+cmp.Or(command, "subscribe"))
	return true
}
