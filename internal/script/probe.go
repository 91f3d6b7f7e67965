package script

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	probe    = load("probe")
	probeKey = load("probe_key")

	// probeEval is probeKey as a script that no server has, so that a driver sends
	// its source.
	probeEval = &driver.Script{Name: "probe_eval", Source: probeKey.Source, SHA: strings.Repeat("0", 40)}
)

// A Command is a command that scripts run.
type Command struct {
	form    string  // a form that changes nothing, see lua/probe.lua
	For     string  // what fails without it; empty: locks
	Feature Feature // the first one that needs it
}

// Name returns the name of the command as in ACL rules: "get", "memory|usage".
func (c Command) Name() string {
	word, rest, _ := strings.Cut(c.form, " ")
	if word == "memory" || word == "object" || word == "pubsub" {
		sub, _, _ := strings.Cut(rest, " ")
		word += "|" + sub
	}
	return word
}

// Commands are all commands that scripts run, except the publish command. PING
// is included, although only drivers send it: a user that may run it in a script
// may also send it.
var Commands = slices.Concat(
	neededBy("",
		"get K", "set K x px x", "del M", "unlink M", "exists K", "type K", "strlen K",
		"pttl K", "pexpire K x", "persist M",
		"incr S", "incrby K x", "decr S", "decrby K x",
		"hexists K x", "hget K x", "hmget K x", "hgetall K", "hlen K", "hstrlen K x", "hscan K 0", "hrandfield K", "hset K x x x", "hdel K x",
		"lindex K 0", "llen K", "lrem K x x", "lpop K", "rpush S x",
		"zscore K x", "zcard K", "zcount K 0 0", "zrange K 0 0", "zrangebyscore K 0 0", "zrevrange K 0 0", "zrevrangebyscore K 0 0",
		"zadd K x x", "zrem K x", "zremrangebyrank K x x", "zremrangebyscore K x x",
		"time", "ping"),
	neededBy("Redlock and this check", "info server"),
	neededBy("a release that wakes one waiting client instead of all", "zrank K x", "pubsub numsub", "pubsub shardnumsub"),
	neededBy("Redisson beside Holdfast", "hkeys K"),
	featured(Objects, "Object.ExpireAt", "pexpireat K x"),
	featured(Objects, "Object.Touch", "touch K"),
	featured(Objects, "Object.Rename and Restore", "rename M M"),
	featured(Objects, "Object.MemoryUse", "memory usage K"),
	featured(Objects, "Object.IdleTime", "object idletime K"),
	featured(Databases, "Object.Copy", "copy M M db x"),
	featured(Databases, "Object.Move", "move M x", "select x"),
	featured(Dumps, "Object.Dump", "dump K"),
	featured(Dumps, "Object.Restore", "restore K x x"),
)

// Looks are the commands that only the scripts of package inspect run. They are
// for operators: SCAN returns the names of all keys on a server.
var Looks = neededBy("package inspect", "scan 0")

func neededBy(what string, forms ...string) []Command { return featured("", what, forms...) }

func featured(feature Feature, what string, forms ...string) []Command {
	cs := make([]Command, len(forms))
	for i, f := range forms {
		cs[i] = Command{f, what, feature}
	}
	return cs
}

// A Refusal is the reason why a server refuses a call.
type Refusal uint8

// The refusals. Servers check commands first, then keys, then channels.
const (
	NotRefused Refusal = iota
	CommandRefused
	KeyRefused
	ChannelRefused
	CommandMissing // the server does not have the command
)

var (
	ofKey      = regexp.MustCompile(`access .*\bkeys?\b`)
	ofChannel  = regexp.MustCompile(`(access|publish) .*\bchannels?\b`)
	notThere   = regexp.MustCompile(`Unknown (\w+ )?command called from (Lua )?script`)
	ofACommand = regexp.MustCompile(`run the '([^' ]+)' command`)
)

// Refused returns which permission the user lacks, given the error of the
// server, and the command if the error contains it.
func Refused(said string) (r Refusal, command string) {
	switch {
	case notThere.MatchString(said):
		return CommandMissing, ""
	case driver.CodeOf(driver.ServerError(said)) != "NOPERM":
		return NotRefused, ""
	case ofChannel.MatchString(said):
		return ChannelRefused, ""
	case ofKey.MatchString(said):
		return KeyRefused, ""
	}
	if m := ofACommand.FindStringSubmatch(said); m != nil {
		command = m[1]
	}
	return CommandRefused, command
}

// ProbeChannel returns a channel of the object without subscribers.
func ProbeChannel(name string) string { return prefixed("redisson_lock__channel", name) + ":probe" }

// ProbeLua runs a script that does nothing.
func ProbeLua() driver.Call { return driver.Call{Script: probeKey} }

// ProbeKey asks the server whether the user may use a key in a script. If eval is
// true, the server does not have that script.
func ProbeKey(key string, eval bool) driver.Call {
	s := probeKey
	if eval {
		s = probeEval
	}
	return driver.Call{Script: s, Keys: []string{key}}
}

// Probe tries all commands on the server of a name. It returns the refusals by
// the index of the command; the index after the last one is the publish command.
// onName must be false if the user may not use the name itself.
func Probe(ctx context.Context, d driver.Driver, name string, onName bool) ([]Refusal, error) {
	c := driver.Call{Script: probe, Args: []string{publish, ProbeChannel(name), prefixed("holdfast:probe", name)}}
	if onName {
		c.Keys = []string{name}
	}
	for _, cmd := range Commands {
		c.Args = append(c.Args, cmd.form)
	}
	r, err := d.Do(ctx, c)
	if err != nil {
		return nil, err
	}
	if r.Type != driver.List || len(r.List) != len(Commands)+1 {
		return nil, unexpected(probe, r)
	}
	rs := make([]Refusal, len(r.List))
	for i, e := range r.List {
		if e.Type != driver.Str {
			return nil, unexpected(probe, r)
		}
		rs[i], _ = Refused(e.Str)
	}
	return rs, nil
}
