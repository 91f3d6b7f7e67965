package redistest

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// localhost is the address of single servers and of clients.
const localhost = "127.0.0.1"

// spec describes a server to start.
type spec struct {
	host        string // the address it listens on and connects from
	front       string // the address that others reach it at
	args        []string
	env         []string
	sentinel    bool
	initCommand []string      // a command to run after each start, if any
	testLogin   *url.Userinfo // login of the methods of Server; nil if none is needed
	login       *url.Userinfo // login of clients, in URLs
	tls         *TLSFiles     // nil without TLS
	clock       *offsetFile   // nil if the clock cannot be moved
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

// configure writes the configuration file. Servers update it, for example with
// the address of their master.
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
	if s.host != localhost && sinceSeven() { // before 7.0, the source address is always that of bind
		args = append(args, "--bind-source-addr", s.host)
	}
	if s.tls != nil {
		args = append(args, s.tls.args(strconv.Itoa(s.port))...)
	}
	// The defaults come first because the server lets a later setting win.
	args = append(args, s.args...)
	for i := len(args) - 2; i >= 0 && !sinceSeven(); i-- {
		if args[i] == "--enable-debug-command" {
			args = slices.Delete(args, i, i+2) // before 7.0, it cannot be disabled
		}
	}
	text := configuration(args)
	if err := os.MkdirAll(s.dataDir(), 0o700); err != nil {
		return err
	}
	return os.WriteFile(s.confFile(), []byte(text), 0o600)
}

// configuration converts command line arguments to the lines of a configuration
// file.
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
