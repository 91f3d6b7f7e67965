package redistest

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// localhost is the address of servers that stand alone, and the one that
// clients connect from.
const localhost = "127.0.0.1"

// spec is what a server is started with.
type spec struct {
	host     string // the address it listens on and connects from
	front    string // the address that others reach it at
	args     []string
	env      []string
	sentinel bool
	greeting []string      // a command for every new process, if any
	keeper   *url.Userinfo // of the tests, nil if nobody is asked for
	login    *url.Userinfo // of clients, in URLs
	tls      *TLSFiles     // nil without TLS
	clock    *offsetFile   // nil if it cannot be moved
}

// url returns a URL of the given servers for clients.
func (sp spec) url(scheme, path string, query url.Values, servers ...*Server) string {
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, s.Addr())
	}
	if query == nil {
		query = url.Values{}
	}
	if sp.tls != nil {
		scheme = "rediss" + strings.TrimPrefix(scheme, "redis")
		sp.tls.addTo(query)
	}
	u := url.URL{Scheme: scheme, User: sp.login, Host: strings.Join(hosts, ","), Path: path, RawQuery: query.Encode()}
	return u.String()
}

// configure writes the file that the process reads its settings from. Servers
// write to it what they are to remember, such as whom they follow.
func (s *Server) configure() error {
	args := []string{
		"--bind", s.host,
		"--protected-mode", "no",
		"--port", strconv.Itoa(s.port),
		"--dir", s.dataDir(),
		"--save", "",
		"--appendonly", "no",
		"--appendfsync", "always",
	}
	if s.host != localhost { // where it matters who connects; servers before 7.0 do not know it
		args = append(args, "--bind-source-addr", s.host)
	}
	if s.tls != nil {
		args = append(args, s.tls.args(strconv.Itoa(s.port))...)
	}
	// The defaults come first because the server lets a later setting win.
	text := configuration(append(args, s.args...))
	if err := os.MkdirAll(s.dataDir(), 0o700); err != nil {
		return err
	}
	return os.WriteFile(s.confFile(), []byte(text), 0o600)
}

// configuration turns the arguments of a command line into the lines of a file
// that mean the same.
func configuration(args []string) string {
	var b strings.Builder
	for i, arg := range args {
		name, isName := strings.CutPrefix(arg, "--")
		switch {
		case isName && i > 0:
			fmt.Fprintf(&b, "\n%s", name)
		case isName:
			b.WriteString(name)
		default:
			fmt.Fprintf(&b, " %q", arg)
		}
	}
	b.WriteByte('\n')
	return b.String()
}
