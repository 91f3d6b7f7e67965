package driver

import (
	"errors"
	"fmt"
	"regexp"
)

// A SystemError says that the server was recognized as a system that Holdfast
// does not support. The file docs/operations.md lists these systems. A system that
// is not in this list is used like Redis.
type SystemError struct {
	System string // such as "Dragonfly"
	Why    string // what does not work
	Proxy  bool   // drivers refuse it, see ProxyError
}

func (e *SystemError) Error() string {
	return fmt.Sprintf("the server is %s, which is not supported: %s", e.System, e.Why)
}

// ProxyError returns the [Fatal] error about a proxy that spreads keys over
// servers. It wraps a [SystemError].
func ProxyError(system string) error {
	return &Error{Class: Fatal, Code: "ERR", Err: &SystemError{system, "it is a proxy. It runs a script on the server of the first key, although other keys " +
		"may be on other servers: two clients can hold one lock. Connect to the servers behind it", true}}
}

// codis matches the errors of Codis, a proxy.
var codis = regexp.MustCompile(`^(ERR )?handle (request|response), `)

// systems contains what INFO shows of systems other than Redis: a field, and
// why the system is not supported.
var systems = []struct{ field, name, why string }{
	{"valkey_version", "Valkey", ""},
	{"redict_version", "Redict", ""},
	{"dragonfly_version", "Dragonfly", "its scripts can only use keys that the caller lists, and read locks use others. " + untested},
	{"garnet_version", "Garnet", "without special settings it runs no scripts, or does not lock the keys of a script. " + untested},
	{"pika_version", "Pika", "it runs no scripts. " + untested},
	{"kvrocks_version", "Kvrocks", untested},
}

const untested = "Holdfast was never tested with it"

// Unsupported returns a [SystemError] if the server was recognized as a
// system that Holdfast does not support.
func (f Facts) Unsupported() error {
	if e := (*SystemError)(nil); errors.As(f.SettingsErr, &e) {
		return f.SettingsErr
	}
	switch {
	case f.Info["RedisMode"] == "proxy":
		return ProxyError("Predixy")
	case f.Role == "active-replica":
		return &SystemError{System: "KeyDB with active-replica", Why: "several servers accept writes, so that two clients can hold one lock. Set active-replica no"}
	}
	for _, s := range systems {
		if _, ok := f.Info[s.field]; ok && s.why != "" {
			return &SystemError{System: s.name, Why: s.why}
		}
	}
	return nil
}

// Proxy returns [Facts.Unsupported] if the server was recognized as a proxy that
// spreads keys over servers.
func (f Facts) Proxy() error {
	var e *SystemError
	if err := f.Unsupported(); errors.As(err, &e) && e.Proxy {
		return err
	}
	return nil
}
