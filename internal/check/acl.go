package check

import (
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/script"
)

// beside are the commands that drivers send, apart from those that scripts run,
// and what a feature shares with another. Every user may run HELLO and AUTH.
var beside = map[script.Feature][]string{
	"":                 {"eval", "evalsha", "publish", "subscribe", "unsubscribe", "wait"},
	script.Dumps:       {"rename"}, // as Objects
	script.SeeSettings: {"config|get"},
}

// inCluster are those that only clusters need. Servers before 7.0 have no
// sharded channels.
var inCluster = []string{"cluster|info", "cluster|slots", "asking", "spublish", "ssubscribe", "sunsubscribe"}

// Rule returns the rights that a user needs for a feature, the empty one being
// that of all locks, on objects whose names begin with prefix, in the words of ACL
// SETUSER. Features need those of locks, too.
func Rule(feature script.Feature, prefix string, database int, cluster bool) (keys, channels, commands []string) {
	ks, cs := script.Patterns(feature, prefix, database)
	for _, k := range ks {
		keys = append(keys, "~"+k)
	}
	for _, c := range cs {
		channels = append(channels, "&"+c)
	}
	for _, c := range script.Commands {
		if c.Feature == feature {
			commands = append(commands, "+"+c.Name())
		}
	}
	for _, c := range beside[feature] {
		commands = append(commands, "+"+c)
	}
	if cluster && feature == "" {
		for _, c := range inCluster {
			commands = append(commands, "+"+c)
		}
	}
	slices.Sort(commands)
	return keys, channels, commands
}

// grant is how to give a user rights.
func grant(rights ...string) string { return "ACL SETUSER <user> " + strings.Join(rights, " ") }

// grantFeature is how to give a user the rights of features.
func grantFeature(rights ...string) string {
	return grant(rights...) + ", if the program uses these features: docs/operations.md says what each permission exposes"
}
