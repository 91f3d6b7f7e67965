package script

import (
	"slices"
	"strconv"
	"strings"
)

// Uses are the keys and channels that objects of some kinds use in addition to
// the key with their name. A star stands for a part that differs between
// clients.
type Uses struct {
	By       string // which kinds
	Feature  Feature
	Keys     []string
	Channels []string
}

// A Feature is a part of the API that needs more rights than locks need. The
// empty Feature is everything else. docs/operations.md has a block of rights for
// each feature.
type Feature string

// The features.
const (
	Objects     Feature = "Object"
	Databases   Feature = "Object.Copy and Object.Move"
	Dumps       Feature = "Object.Dump and Object.Restore"
	Listening   Feature = "Object.Listen"
	Fencing     Feature = "Package fence"
	Clients     Feature = "The names of clients, and deadlocks"
	SeeSettings Feature = "The settings of the server"
)

// Features lists all features in the order of docs/operations.md.
var Features = []Feature{Objects, Databases, Dumps, Listening, Fencing, Clients, SeeSettings}

// UsesOf returns the keys and channels of objects of all kinds with that name in
// a database. Most scripts get the channel as one of their keys, so the user
// needs the rights for both.
func UsesOf(name string, database int) []Uses {
	var uses []Uses
	for _, k := range Kinds {
		if k.Uses != nil {
			uses = append(uses, k.Uses(name))
		}
	}
	queue := NewMutex(name).Queued()
	return append(uses,
		Uses{By: "a lock with a queue of waiting clients", Keys: []string{queue.queue}, Channels: queue.GrantChannels("*")},
		Uses{By: "Bucket.Watch", Channels: []string{NewBucket(name).channel}},
		Uses{By: "Object.Restore", Feature: Dumps, Keys: []string{restoring(name, "*")}},
		Uses{By: "Object.Listen", Feature: Listening, Channels: []string{"__keyspace@" + strconv.Itoa(database) + "__:" + name}},
		Uses{By: "package fence", Feature: Fencing, Keys: []string{FenceKey(name)}},
		Uses{By: "a client that says who it is and what it waits for", Feature: Clients, Keys: []string{clientKey("*"), blockedPrefix + "*", deadlockPrefix + "*"}},
	)
}

// anyMark is the mark of any request for an object with that name.
func anyMark(name string) string {
	key, _ := mark(name, "*:1")
	return key
}

// Patterns returns the patterns, for ACL rules, of the keys and channels that a
// feature uses for all objects whose names begin with prefix. Names with a hash
// tag need other patterns than names without.
func Patterns(feature Feature, prefix string, database int) (keys, channels []string) {
	prefix = Escape(prefix)
	if feature == "" {
		keys = []string{prefix + "*"}
	}
	for _, rest := range []string{"\x00", "{\x00}"} { // parts of a name
		upTo := func(list, of []string) []string {
			for _, s := range of {
				if begin, _, found := strings.Cut(s, rest); found {
					s = begin + "*"
				}
				list = append(list, s)
			}
			return list
		}
		for _, u := range UsesOf(prefix+rest, database) {
			if u.Feature != feature {
				continue
			}
			keys, channels = upTo(keys, u.Keys), upTo(channels, u.Channels)
		}
	}
	slices.Sort(keys)
	slices.Sort(channels)
	return slices.Compact(keys), slices.Compact(channels)
}

var escaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// Escape returns the pattern that matches only s.
func Escape(s string) string { return escaper.Replace(s) }
