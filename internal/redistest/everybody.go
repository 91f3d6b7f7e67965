package redistest

import (
	"net/url"
	"slices"
)

// everybody are the rights of clients that give no name, if they are limited.
var everybody []string

// LimitEverybody has servers that stand alone, and are started from now on, give
// clients without a name these rights only, in the words of ACL SETUSER. The
// tests themselves may still do everything.
func LimitEverybody(rights ...string) { everybody = rights }

// limit applies LimitEverybody to a server.
func limit(sp spec) spec {
	if everybody == nil || sp.login != nil || option(sp.args, "--requirepass") != "" {
		return sp
	}
	const keeper, password = "keeper", "of the tests"
	sp.keeper = url.UserPassword(keeper, password)
	sp.args = slices.Concat(sp.args,
		[]string{"--user", keeper, "on", ">" + password, "~*", "&*", "+@all"},
		[]string{"--user", "default", "on", "nopass", "resetkeys", "resetchannels", "-@all"}, everybody)
	return sp
}
