package check

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A rule checks one server that has answered.
type rule struct {
	topic string
	judge func(Wants, *subject) (s Severity, text, change string) // the text is empty if there is no problem, or if it is not known
}

var rules = []rule{
	{"role", role},
	{"tls", encryption},
	{"version", version},
	{"restart", restart},
	{"memory", memory},
	{"persistence", persistence},
	{"replicas", replicas},
	{"links", links},
	{"min-replicas", minReplicas},
	{"coverage", coverage},
}

// A subject is a server to check. It records the settings that a rule could not
// see.
type subject struct {
	driver.Facts
	hidden []string
}

// reported contains settings that INFO also shows, for users without the
// permission for CONFIG GET.
var reported = map[string]struct {
	field string
	value map[string]string // maps the values; nil if they are the same
}{
	"maxmemory":        {"maxmemory", nil},
	"maxmemory-policy": {"maxmemory_policy", nil},
	"appendonly":       {"aof_enabled", map[string]string{"0": "no", "1": "yes"}},
}

// setting returns a setting of the server, if the server shows it.
func (s *subject) setting(name string) (value string, ok bool) {
	if value, ok = s.Settings[name]; ok {
		return value, true
	}
	if r, known := reported[name]; known {
		if value, ok = s.Info[r.field]; ok && r.value != nil {
			value, ok = r.value[value]
		}
	}
	if !ok {
		s.hidden = append(s.hidden, name)
	}
	return value, ok
}

// settings returns the findings about one server.
func settings(w Wants, f driver.Facts) []Finding {
	if f.Err != nil {
		return []Finding{silent(f)}
	}
	if err := f.Unsupported(); err != nil { // the rules are for Redis and Valkey
		return []Finding{{f.Node, Danger, "system", err.Error(), "use Redis or Valkey, without a proxy"}}
	}
	var fs []Finding
	var hidden []string
	for _, r := range rules {
		server := &subject{Facts: f}
		if s, text, change := r.judge(w, server); text != "" {
			fs = append(fs, Finding{f.Node, s, r.topic, text, change})
		}
		if server.hidden != nil {
			hidden = append(hidden, r.topic+" ("+strings.Join(server.hidden, ", ")+")")
		}
	}
	if hidden != nil {
		fs = append(fs, unseen(f, hidden))
	}
	return fs
}

// unseen returns the finding about settings that the server does not show.
func unseen(f driver.Facts, hidden []string) Finding {
	text := "not checked: " + strings.Join(hidden, "; ")
	if f.SettingsErr != nil {
		text += ". The server does not show its settings: " + f.SettingsErr.Error()
	}
	change := "check these settings in the configuration of the server"
	if driver.CodeOf(f.SettingsErr) == "NOPERM" {
		change = "run CONFIG GET as another user. " + grant("+config|get") + ", as an alternative, lets this user read all settings, including passwords such as requirepass and masterauth"
	}
	return Finding{f.Node, Info, "settings", text, change}
}

// silent returns the finding about a server that has not answered.
func silent(f driver.Facts) Finding {
	if driver.CodeOf(f.Err) == "NOPERM" {
		return Finding{f.Node, Danger, "rights", "the user lacks permission to ask for the state of the server: " + f.Err.Error(), grant("+info", "+time")}
	}
	if strings.Contains(f.Err.Error(), "unknown command") {
		return Finding{
			f.Node, Warning, "settings", "not checked: everything but the rights of the user. The server does not show its state: " + f.Err.Error(),
			"permit INFO: without it, the client cannot count replicas, or detect that the server was replaced",
		}
	}
	return Finding{f.Node, Danger, "answer", "the server did not answer and was not checked: " + f.Err.Error(), "start the server or fix the network"}
}

func role(_ Wants, f *subject) (Severity, string, string) {
	if f.Role == "master" {
		return 0, "", ""
	}
	return Danger, fmt.Sprintf("the role of the server is %q, not master: it refuses writes", f.Role), "connect to the master, or to its sentinels"
}

func encryption(w Wants, _ *subject) (Severity, string, string) {
	return Warning, w.Insecure, "set the certificate authority with tls_ca in the URL or holdfast.tls.ca in the file, and turn verification on"
}

// lacks contains features that servers before some version do not have.
var lacks = []struct {
	major, minor int
	what         string
}{
	{6, 2, "Object.Copy"},
	{7, 0, "sharded channels: in a cluster, every message goes to every node"},
}

// release returns the version of a server, if it is known.
func release(f driver.Facts) (major, minor int, ok bool) {
	n, _ := fmt.Sscanf(f.Version, "%d.%d", &major, &minor)
	return major, minor, n == 2
}

func version(_ Wants, f *subject) (Severity, string, string) {
	major, minor, ok := release(f.Facts)
	if !ok {
		return Info, fmt.Sprintf("the server version %q is not recognized", f.Version), "use Redis or Valkey"
	}
	if major < 6 {
		return Danger, "version " + f.Version + " is not supported", "use 6.2 or later"
	}
	var without []string
	for _, l := range lacks {
		if major < l.major || major == l.major && minor < l.minor {
			without = append(without, fmt.Sprintf("%s (%d.%d)", l.what, l.major, l.minor))
		}
	}
	if without == nil {
		return 0, "", ""
	}
	return Info, "version " + f.Version + " has no " + strings.Join(without, ", no "), "use a later version if you need this"
}

func restart(w Wants, f *subject) (Severity, string, string) {
	if f.Uptime >= w.Lease {
		return 0, "", ""
	}
	s := Warning
	if on, _ := f.setting("appendonly"); on == "yes" {
		s = Info
	}
	return s, fmt.Sprintf("the server started %v ago: locks that it lost in the restart may still be held, for up to %v", f.Uptime, w.Lease), "wait for this time before you rely on a lock"
}

func memory(_ Wants, f *subject) (Severity, string, string) {
	limit, ok := f.setting("maxmemory")
	if !ok || limit == "0" {
		return 0, "", ""
	}
	policy, ok := f.setting("maxmemory-policy")
	if !ok || policy == "noeviction" {
		return 0, "", ""
	}
	return Danger, "the server deletes locks when its memory is full: maxmemory-policy is " + policy, "CONFIG SET maxmemory-policy noeviction"
}

func persistence(_ Wants, f *subject) (Severity, string, string) {
	on, ok := f.setting("appendonly")
	if !ok {
		return 0, "", ""
	}
	if on != "yes" {
		text := "the server has no append-only file: a restart loses locks"
		switch save, ok := f.Settings["save"]; {
		case ok && save == "":
			text = "the server saves nothing to disk: a restart loses all locks and their tokens"
		case ok:
			text = "the server saves only snapshots: a restart loses locks that are newer than the last snapshot"
		}
		return Warning, text, "CONFIG SET appendonly yes"
	}
	switch fsync, ok := f.setting("appendfsync"); {
	case !ok || fsync == "always":
		return 0, "", ""
	case fsync == "no":
		return Warning, "a power failure loses writes that are not on disk yet: appendfsync is no", "CONFIG SET appendfsync always"
	default:
		return Info, "a power failure loses up to two seconds of writes: appendfsync is " + fsync, "CONFIG SET appendfsync always"
	}
}

func replicas(w Wants, f *subject) (Severity, string, string) {
	switch {
	case w.Mode == Strict && f.Replicas < w.Required:
		return Danger, fmt.Sprintf("%d replicas must acknowledge every lock, but %d are connected: no lock can be acquired", w.Required, f.Replicas), "connect more replicas, or lower Replication.Replicas"
	case w.Mode == Acked && f.Replicas == 0 && f.Info["repl_backlog_active"] == "1": // it had replicas before
		return Warning, "no replica is connected any more: locks are granted although no replica has them", "start the replicas"
	case w.Mode == Async && f.Replicas > 0:
		return Info, "replicas may lack the latest writes: a failover can lose a lock", "use the replication mode Acked or Strict"
	}
	return 0, "", ""
}

// lag is the delay from which a replica is considered late. Replicas report
// every second.
const lag = 5 * time.Second

func links(_ Wants, f *subject) (Severity, string, string) {
	var bad []string
	for _, name := range slices.Sorted(maps.Keys(f.Info)) {
		if n, ok := strings.CutPrefix(name, "slave"); !ok || strings.Trim(n, "0123456789") != "" {
			continue
		}
		r := make(map[string]string)
		for part := range strings.SplitSeq(f.Info[name], ",") {
			k, v, _ := strings.Cut(part, "=")
			r[k] = v
		}
		late, err := strconv.Atoi(r["lag"])
		if r["state"] != "online" || err != nil || time.Duration(late)*time.Second >= lag {
			bad = append(bad, fmt.Sprintf("%s:%s (%s, last acknowledgement %s s ago)", r["ip"], r["port"], r["state"], r["lag"]))
		}
	}
	if bad == nil {
		return 0, "", ""
	}
	return Warning, "replicas that do not keep up: " + strings.Join(bad, ", "), "check their logs and the network"
}

func minReplicas(w Wants, f *subject) (Severity, string, string) {
	need := w.required()
	if need == 0 || f.Replicas == 0 {
		return 0, "", ""
	}
	toWrite, ok := f.setting("min-replicas-to-write")
	maxLag, ok2 := f.setting("min-replicas-max-lag")
	least, err := strconv.Atoi(toWrite)
	longest, err2 := strconv.Atoi(maxLag)
	if !ok || !ok2 || errors.Join(err, err2) != nil || least >= need && longest > 0 {
		return 0, "", ""
	}
	s := Warning
	if w.Mode == Acked {
		s = Info // mode Acked makes no guarantee that depends on this setting
	}
	var change []string // servers before 7.0 change one setting at a time
	if least < need {
		change = append(change, fmt.Sprintf("CONFIG SET min-replicas-to-write %d", max(min(need, f.Replicas), least)))
	}
	if longest <= 0 {
		change = append(change, "CONFIG SET min-replicas-max-lag 10")
	}
	return s, fmt.Sprintf("a master that was replaced accepts writes for a while: min-replicas-to-write is %d and min-replicas-max-lag is %d", least, longest),
		strings.Join(change, " and ") + "; the server then refuses all writes, not only locks, while fewer replicas are connected"
}

func coverage(_ Wants, f *subject) (Severity, string, string) {
	if !f.Cluster {
		return 0, "", ""
	}
	if full, ok := f.setting("cluster-require-full-coverage"); !ok || full != "yes" {
		return 0, "", ""
	}
	return Info, "if one shard has no master, the whole cluster stops", "CONFIG SET cluster-require-full-coverage no"
}

// plain is the allowed difference between clocks if none is configured.
const plain = time.Second

// clocks returns the findings about the clocks of the servers.
func clocks(w Wants, facts []driver.Facts) []Finding {
	var fs []Finding
	var first, last driver.Facts
	for _, f := range facts {
		if f.Err != nil {
			continue
		}
		if off := f.Clock; off.Abs() > plain {
			fs = append(fs, Finding{f.Node, Warning, "clock", fmt.Sprintf("the clock of the server is %v %s that of this machine", off.Abs().Round(time.Millisecond), ahead(off)), synchronize})
		}
		if first.Role == "" || f.Clock < first.Clock {
			first = f
		}
		if last.Role == "" || f.Clock > last.Clock {
			last = f
		}
	}
	s, limit := Danger, w.Skew
	if limit == 0 {
		s, limit = Warning, plain
	}
	if apart := last.Clock - first.Clock; apart > limit {
		fs = append(fs, Finding{last.Node, s, "skew", fmt.Sprintf("the clock of the server is %v ahead of that of %s; %v is allowed", apart.Round(time.Millisecond), first.Node, limit), synchronize})
	}
	return fs
}

const synchronize = "synchronize the clocks of all machines with NTP, by slewing, not by stepping"

func ahead(d time.Duration) string {
	if d < 0 {
		return "behind"
	}
	return "ahead of"
}
