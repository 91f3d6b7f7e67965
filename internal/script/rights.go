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
	mutex, fair, rw := NewMutex(name), NewFair(name), newRW(name)
	sem, permits, latch := NewSemaphore(name, 1), NewLeased(name, 1), NewLatch(name)
	limiter, election := NewRateLimiter(name, "*", 1), NewElection(name)
	once, _ := mark(name, "*:1")
	return []Uses{
		{"any mutex", "", mutex.keys[1:], mutex.Channels("*")},
		{"FairMutex", "", fair.keys[1:], fair.Channels("*")},
		{"RWMutex", "", []string{rw.root, rw.own("*") + ":*", rw.writers, rw.channel}, rw.Channels("*")},
		{"FencedMutex and Election", "", election.keys[1:], nil},
		{"Election", "", []string{election.news}, []string{election.news}},
		{"Semaphore", "", []string{sem.channel, once}, sem.Channels("*")},
		{"LeasedSemaphore", "", []string{permits.leases, permits.channel, once}, permits.Channels("*")},
		{"Latch", "", []string{once}, latch.Channels("*")},
		{"RateLimiter", "", append(limiter.keys[1:], once), nil},
		{"IDGenerator", "", append(names(GeneratorShape(name).Keys[1:]), once), nil},
		{"AtomicLong, Bucket and Object", "", []string{once}, nil},
		{"Object.Restore", Dumps, []string{restoring(name, "*")}, nil},
		{"Object.Listen", Listening, nil, []string{"__keyspace@" + strconv.Itoa(database) + "__:" + name}},
		{"package fence", Fencing, []string{FenceKey(name)}, nil},
	}
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
