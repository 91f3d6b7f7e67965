package script_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// variable are the commands in scripts that are not spelt out where they are
// called.
var variable = map[string][]string{
	"redis.call(PROBE[t]":                   {"strlen", "hlen", "llen", "zcard"},
	"redis.call(walk":                       {"zrange", "zrevrange"},
	"group_acquire.lua redis.call(unpack(w": {"zadd", "pexpire"}, // of rwmutex_write_acquire
	"object_delete.lua redis.call(ARGV[4]":  {"del", "unlink"},
	"object_expire.lua redis.call(ARGV[4]":  {"pexpire", "pexpireat"},
}

// commands returns the commands that the scripts run, and in which files.
func commands(t *testing.T) map[string][]string {
	t.Helper()
	call := regexp.MustCompile(`redis\.p?call\((?:'(\w+)'(?:, *'(\w+)')?|([^,)]+))`)
	found := make(map[string][]string)
	read := func(file, source string) {
		base := path.Base(file)
		for _, m := range call.FindAllStringSubmatch(source, -1) {
			names := []string{strings.ToLower(m[1])}
			if m[1] == "memory" || m[1] == "object" || m[1] == "pubsub" {
				names[0] += "|" + m[2]
			}
			if dynamic := "redis.call(" + m[3]; m[1] == "" {
				names = slices.Concat(variable[dynamic], variable[base+" "+dynamic])
			}
			if len(names) == 0 {
				names = []string{"publish"}
				if publishes := regexp.MustCompile(`(?m)^--.* PUBLISH|\bpublish\b`); !publishes.MatchString(source) {
					t.Errorf("%s: it is unknown which command %q runs", file, m[0])
				}
			}
			for _, n := range names {
				found[n] = append(found[n], base)
			}
		}
	}
	err := fs.WalkDir(script.Files, "lua", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "probe.lua" {
			return err
		}
		source, err := fs.ReadFile(script.Files, file)
		read(file, string(source))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	read("fence.lua", script.FencePrelude)
	return found
}

// Each command that a script runs is probed, and each that is probed is run by
// a script; and what stops without it is told truly.
func TestCommandsOfScripts(t *testing.T) {
	used := commands(t)
	if len(used) < 40 || !slices.Contains(used["publish"], "mutex_release.lua") {
		t.Fatalf("the scripts have not been read well: %v", used)
	}
	delete(used, "publish")
	for _, c := range slices.Concat(script.Commands, script.Looks) {
		if c.Name() == "ping" || c.For == "Redisson beside Holdfast" {
			continue // of the drivers, or of Redisson's own scripts
		}
		files, ok := used[c.Name()]
		if !ok {
			t.Errorf("no script runs %s", c.Name())
		}
		delete(used, c.Name())
		needed := slices.ContainsFunc(files, func(f string) bool {
			return f != "queue.lua" && f != "enqueue.lua" && f != "grant.lua" && f != "listeners.lua" && // without it, a release wakes all
				!strings.HasPrefix(f, "object") && !strings.HasPrefix(f, "inspect") && f != "vote.lua"
		})
		if needed != (c.For == "") {
			t.Errorf("%s is for %q, and used in %v", c.Name(), c.For, files)
		}
	}
	for name, files := range used {
		t.Errorf("%v run %s, which Commands does not have", files, name)
	}
}

// Probing changes nothing, be it by a user who may do everything or by one who
// may do nothing more.
func TestProbeLeavesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "poor", "on", ">secret", "~job", "-@all", "+eval", "+evalsha", "+info", "+set")
	for url, may := range map[string]bool{s.URL(): true, "redis://poor:secret@" + s.Addr(): false} {
		d := connect(t, url)
		s.Do(t, "SET", "job", "mine")
		rs, err := script.Probe(t.Context(), d, "job", true)
		if err != nil {
			t.Fatal(err)
		}
		if keys := s.Keys(t); !slices.Equal(keys, []string{"job"}) || s.Do(t, "GET", "job") != "mine" || s.Int(t, "PTTL", "job") != -1 {
			t.Errorf("the server has %q", keys)
		}
		for i, r := range rs {
			name := "publish"
			if i < len(script.Commands) {
				name = script.Commands[i].Name()
			}
			want := script.CommandRefused
			switch {
			case may || name == "info":
				want = script.NotRefused
			case name == "set":
				want = script.KeyRefused
			}
			if r != want {
				t.Errorf("%s, for one who may do everything (%v): %v, want %v", name, may, r, want)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		said    string
		want    script.Refusal
		command string
	}{
		{"NOPERM this user has no permissions to run the 'eval' command", script.CommandRefused, "eval"},
		{"NOPERM this user has no permissions to run the 'config|get' command", script.CommandRefused, "config|get"},
		{"NOPERM this user has no permissions to run the 'eval' command or its subcommand", script.CommandRefused, "eval"},
		{"NOPERM User app has no permissions to run the 'eval' command", script.CommandRefused, "eval"},
		{"NOPERM this user has no permissions to access one of the keys used as arguments", script.KeyRefused, ""},
		{"NOPERM No permissions to access a key", script.KeyRefused, ""},
		{"NOPERM this user has no permissions to access one of the channels used as arguments", script.ChannelRefused, ""},
		{"NOPERM No permissions to access a channel", script.ChannelRefused, ""},
		{"ERR The user executing the script can't run this command or subcommand", script.CommandRefused, ""},
		{"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments", script.KeyRefused, ""},
		{"ERR The user executing the script can't publish to the channel mentioned in the command", script.ChannelRefused, ""},
		{"NOPERM ACL failure in script: User app has no permissions to run the 'set' command", script.CommandRefused, "set"},
		{"NOPERM ACL failure in script: No permissions to access a key", script.KeyRefused, ""},
		{"WRONGTYPE Operation against a key holding the wrong kind of value", script.NotRefused, ""},
		{"ERR value is not an integer or out of range", script.NotRefused, ""},
	} {
		if r, command := script.Refused(tt.said); r != tt.want || command != tt.command {
			t.Errorf("%s: %v %q, want %v %q", tt.said, r, command, tt.want, tt.command)
		}
	}
}

// The rights for a prefix cover every key of every call in the golden files, and
// no more than they have to.
func TestPatterns(t *testing.T) {
	patterns := func(prefix string) (keys, channels []string) {
		for _, f := range append([]script.Feature{""}, script.Features...) {
			k, c := script.Patterns(f, prefix, 0)
			keys, channels = append(keys, k...), append(channels, c...)
		}
		return keys, channels
	}
	keys, channels := patterns("job")
	all, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	quoted := regexp.MustCompile(`"([^"]+)"`)
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			list, ok := strings.CutPrefix(line, "  keys ")
			if !ok {
				continue
			}
			for _, m := range quoted.FindAllStringSubmatch(list, -1) {
				if !matches(keys, m[1]) && strings.Contains(m[1], "job") {
					t.Errorf("%s: no pattern is for the key %q", file, m[1])
				}
			}
		}
	}
	for _, of := range []string{"redisson_lock__channel:{job}", "redisson_rwlock:job:{1}", "redisson_countdownlatch__channel__{job}", "__keyspace@0__:job"} {
		if !matches(channels, of) {
			t.Errorf("no pattern is for the channel %q", of)
		}
	}
	if keys, channels := patterns("e"); slices.Contains(keys, "re*") || slices.Contains(channels, "re*") || matches(channels, "__keyevent") {
		t.Errorf("a letter of the prefix ends the prefix of a key: %q, %q", keys, channels)
	}
	for _, foreign := range []string{"other", "{other}:job", "redisson_lock_queue:{other}", "holdfast:once:{other:job}:x"} {
		if matches(keys, foreign) || matches(channels, foreign) {
			t.Errorf("the patterns allow %q, a key of another program", foreign)
		}
	}
	if keys, _ := patterns("a*[b]?"); !slices.Contains(keys, `a\*\[b\]\?*`) {
		t.Errorf("the prefix is not escaped: %q", keys)
	}
}

// matches reports whether one of the patterns, which end in a star, matches.
func matches(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return strings.HasPrefix(s, strings.TrimSuffix(p, "*")) })
}
