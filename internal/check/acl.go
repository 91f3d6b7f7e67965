package check

import (
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/script"
)

// beside are the commands that drivers send, apart from those that scripts run.
// HELLO and AUTH are allowed to everybody.
var beside = []string{"eval", "evalsha", "publish", "subscribe", "unsubscribe", "wait", "config|get"}

// inCluster are those that only clusters need. Servers before 7.0 have no
// sharded channels.
var inCluster = []string{"cluster|info", "cluster|slots", "asking", "spublish", "ssubscribe", "sunsubscribe"}

// Rule returns the rights that a user needs for objects whose names begin with
// prefix, in the words of ACL SETUSER.
func Rule(prefix string, database int, cluster bool) (keys, channels, commands []string) {
	ks, cs := script.Patterns(prefix, database)
	for _, k := range ks {
		keys = append(keys, "~"+k)
	}
	for _, c := range cs {
		channels = append(channels, "&"+c)
	}
	for _, c := range script.Commands {
		commands = append(commands, "+"+c.Name())
	}
	for _, c := range beside {
		commands = append(commands, "+"+c)
	}
	if cluster {
		for _, c := range inCluster {
			commands = append(commands, "+"+c)
		}
	}
	slices.Sort(commands)
	return keys, channels, commands
}

// grant is how to give a user rights.
func grant(rights ...string) string { return "ACL SETUSER <user> " + strings.Join(rights, " ") }
