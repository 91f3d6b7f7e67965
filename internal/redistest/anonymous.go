package redistest

import (
	"net/url"
	"slices"
)

// anonymousRights are the rights of clients without a user name. nil means all
// rights.
var anonymousRights []string

// LimitEverybody limits the rights of clients without a user name, on single
// servers that are started after the call. The rights are rules of ACL SETUSER.
// The methods of [Server] keep all rights.
func LimitEverybody(rights ...string) { anonymousRights = rights }

// limitAnonymous applies LimitEverybody to the spec of a server.
func limitAnonymous(sp spec) spec {
	if anonymousRights == nil || sp.login != nil || option(sp.args, "--requirepass") != "" {
		return sp
	}
	const keeper, password = "keeper", "of the tests"
	sp.testLogin = url.UserPassword(keeper, password)
	sp.args = slices.Concat(sp.args,
		[]string{"--user", keeper, "on", ">" + password, "~*", "&*", "+@all"},
		[]string{"--user", "default", "on", "nopass", "resetkeys", "resetchannels", "-@all"}, anonymousRights)
	return sp
}
