package script

import (
	"slices"
	"strconv"
	"strings"
)

// Uses are the keys and channels that objects of some kinds have beside the key
// by their name. A star in them is for what differs from client to client.
type Uses struct {
	By       string // which kinds
	Feature  Feature
	Keys     []string
	Channels []string
}

// A Feature is a part of the API that needs rights which locks do not need. The
// empty Feature is everything else: docs/operations.md has a block of rights for
// each.
type Feature string

// The features.
const (
	Objects     Feature = "Object"
	Databases   Feature = "Object.Copy and Object.Move"
	Dumps       Feature = "Object.Dump and Object.Restore"
	Listening   Feature = "Object.Listen"
	Fencing     Feature = "Package fence"
	SeeSettings Feature = "The settings of the server"
)

// Features are all features, in the order of docs/operations.md.
var Features = []Feature{Objects, Databases, Dumps, Listening, Fencing, SeeSettings}

// UsesOf returns what objects with that name have in a database, whatever they
// are. Most scripts are given the channel among their keys, so the user needs
// the rights for both.
func UsesOf(name string, database int) []Uses {
	var uses []Uses
	for _, k := range Kinds {
		if k.Uses != nil {
			uses = append(uses, k.Uses(name))
		}
	}
	return append(uses,
		Uses{By: "Object.Restore", Feature: Dumps, Keys: []string{restoring(name, "*")}},
		Uses{By: "Object.Listen", Feature: Listening, Channels: []string{"__keyspace@" + strconv.Itoa(database) + "__:" + name}},
		Uses{By: "package fence", Feature: Fencing, Keys: []string{FenceKey(name)}},
	)
}

// anyMark is the mark of any request for an object with that name.
func anyMark(name string) string {
	key, _ := mark(name, "*:1")
	return key
}

// Patterns are the keys and channels that a feature uses of all objects whose
// names begin with prefix, as rights are given for them. A name with a hash tag of
// its own has others than one without.
func Patterns(feature Feature, prefix string, database int) (keys, channels []string) {
	prefix = Escape(prefix)
	if feature == "" {
		keys = []string{prefix + "*"}
	}
	for _, rest := range []string{"\x00", "{\x00}"} { // of a name
		upTo := func(list, of []string) []string {
			for _, s := range of {
				begin, _, _ := strings.Cut(s, rest)
				list = append(list, begin+"*")
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

// Escape returns the pattern that matches just s.
func Escape(s string) string { return escaper.Replace(s) }
