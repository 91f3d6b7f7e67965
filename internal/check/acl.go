package check

import (
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/script"
)

// beside contains the commands that drivers send outside of scripts, and the
// commands that a feature shares with another. Every user may run HELLO and
// AUTH.
var beside = map[script.Feature][]string{
	"":                 {"eval", "evalsha", "publish", "subscribe", "unsubscribe", "wait"},
	script.Dumps:       {"rename"}, // shared with Objects
	script.SeeSettings: {"config|get"},
}

// inCluster contains the commands that only clusters need. Servers before 7.0
// have no sharded channels.
var inCluster = []string{"cluster|info", "cluster|slots", "asking", "spublish", "ssubscribe", "sunsubscribe"}

// Rule returns the permissions that a user needs for a feature, on objects
// whose names begin with prefix, in the syntax of ACL SETUSER. The empty
// feature stands for all locks. The other features need the permissions of
// locks, too.
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

// grant returns the command that grants permissions to a user.
func grant(rights ...string) string { return "ACL SETUSER <user> " + strings.Join(rights, " ") }

// grantFeature returns the command that grants the permissions of features.
func grantFeature(rights ...string) string {
	return grant(rights...) + ", if the program uses these features: docs/operations.md says what each permission exposes"
}
