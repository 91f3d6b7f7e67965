// Package dashboard shows the locks on a server in a browser: who holds what, who
// waits, and how that changes. It reads the keys of Holdfast and of Redisson.
//
//	d := dashboard.New(client, dashboard.Options{})
//	defer d.Close()
//	http.Handle("/admin/locks/", d)
//
// A [Dashboard] works under any path that ends with a slash, with and without
// http.StripPrefix: all its links are relative.
//
// The dashboard has no login. Serve it where only operators can reach it, as
// net/http/pprof. It shows the names of locks and the hosts and processes of clients.
//
// # Load
//
// One scanner per dashboard reads the keys of the servers, however many browsers are
// connected. It runs only while a page is open. It spends at most a twenty-fifth of
// the time with requests to the servers, so it updates less often on a server with many
// keys. docs/command.md has measurements.
//
// # Scripts
//
// The path locks.json returns the last snapshot as JSON. docs/command.md describes
// it.
package dashboard

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
)

// Options configure a [Dashboard]. The zero value is a good choice.
type Options struct {
	// Title names the servers in the heading of all pages, such as "production".
	Title string

	// Match is a pattern for the names of locks, as in [inspect.Query]. The default
	// matches all. A user with permission for some names only needs it.
	Match string

	// Limit is the maximum number of locks in the list. The default is 20,000.
	Limit int

	// Keys is the approximate maximum number of keys to scan per round. The default
	// is 1,000,000.
	Keys int

	// Every is the time between two scans of a server with few keys. The default is
	// one second, the minimum 100 ms.
	Every time.Duration

	// AllowBreak lets users of the dashboard break locks. By default they can only
	// look.
	AllowBreak bool

	// Audit is called after each attempt to break a lock. By default, the attempt is
	// logged to slog.Default().
	Audit func(Action)

	// Observer counts the losses of clients in this program. See [Observer].
	Observer *Observer

	// Hosts lists the host names under which browsers may reach the dashboard, such
	// as "locks.example.com". Requests for other names are refused: any web site can
	// make its own name resolve to the address of the dashboard, and its script could
	// then read the pages and break locks. Requests for IP addresses and for localhost
	// are always answered. The name "*" allows all hosts, for a handler behind a login.
	Hosts []string
}

// An Action is an attempt to break a lock.
type Action struct {
	Lock    inspect.Lock  // the lock, with the holders that the user has seen
	Broken  bool          // false if other owners held the lock
	Err     error         // the error of [inspect.Inspector.Break]
	Request *http.Request // the request of the user; RemoteAddr is its address
}

// A Dashboard is an [http.Handler] that serves the pages. It is safe for concurrent
// use.
type Dashboard struct {
	client  *holdfast.Client
	options Options
	key     []byte // signs forms
	cross   *http.CrossOriginProtection
	scanner *scanner
	servers servers
	streams streams
	ctx     context.Context
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

// New returns a dashboard for the servers of a client. The client needs few
// permissions, see docs/command.md. Closing the dashboard does not close the client.
func New(client *holdfast.Client, o Options) *Dashboard {
	o.Limit = cmp.Or(max(o.Limit, 0), 20_000)
	o.Keys = cmp.Or(max(o.Keys, 0), 1_000_000)
	o.Every = max(cmp.Or(o.Every, time.Second), 100*time.Millisecond)
	if o.Audit == nil {
		o.Audit = logAction
	}
	d := &Dashboard{client: client, options: o, key: []byte(rand.Text()), cross: http.NewCrossOriginProtection()}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.scanner = newScanner(client, o)
	d.servers.client = client
	d.wg.Go(func() { d.scanner.run(d.ctx) })
	return d
}

// Close stops the scanner and ends the connections of browsers that receive updates.
// Closing twice is allowed.
func (d *Dashboard) Close() error {
	d.stop()
	d.wg.Wait()
	return nil
}

func logAction(a Action) {
	owners := make([]string, len(a.Lock.Holders))
	for i, h := range a.Lock.Holders {
		owners[i] = h.Owner
	}
	slog.Default().Warn("holdfast dashboard: break a lock", "lock", a.Lock.Name, "owners", owners, "broken", a.Broken, "error", a.Err, "remote", a.Request.RemoteAddr)
}

//go:embed assets/* templates/*
var files embed.FS

var templates = template.Must(template.New("").ParseFS(files, "templates/*.html"))

// policy is the Content-Security-Policy of all pages. Scripts and styles come from the
// dashboard itself. With trusted types, a browser refuses any script that makes HTML
// from text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// A route answers requests for a path.
type route struct {
	serve func(*Dashboard, http.ResponseWriter, *http.Request)
	post  bool // POST is allowed
	page  bool // links on other sites may lead here

	stream bool // the response has no end
}

// routes are the paths, without the prefix of the dashboard. They have no slash, so
// that relative links work on all pages.
var routes map[string]route

func init() {
	routes = map[string]route{
		"events":        {serve: (*Dashboard).serveEvents, stream: true},
		"locks.json":    {serve: (*Dashboard).serveJSON},
		"break":         {serve: (*Dashboard).serveBreak, post: true, page: true},
		"dashboard.css": {serve: asset("dashboard.css", "text/css; charset=utf-8")},
		"dashboard.js":  {serve: asset("dashboard.js", "text/javascript; charset=utf-8")},
		"icon.svg":      {serve: asset("icon.svg", "image/svg+xml")},
	}
	for i := range pages {
		p := &pages[i]
		routes[p.path] = route{serve: p.serve, post: p.post != nil, page: true}
	}
}

// ServeHTTP answers a request of a browser.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !d.knownHost(r.Host) {
		http.Error(w, "This dashboard does not serve this host name. Add the name to --allowed-hosts, or to dashboard.Options.Hosts, to allow it.", http.StatusMisdirectedRequest)
		return
	}
	if r.URL.Path == "" { // the prefix without a slash
		target, query, _ := strings.Cut(r.RequestURI, "?")
		if target = path.Base(target) + "/"; query != "" {
			target += "?" + query
		}
		h.Set("Location", "./"+target)
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	at, ok := routes[r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]]
	switch {
	case !ok:
		http.Error(w, "There is no such page.", http.StatusNotFound)
	case d.foreign(r) && (!at.page || !followsLink(r)):
		http.Error(w, "This request comes from another site.", http.StatusForbidden)
	case r.Method == http.MethodPost && at.post:
		at.serve(d, w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "This method is not allowed.", http.StatusMethodNotAllowed)
	case r.Method == http.MethodHead && at.stream:
		h.Set("Content-Type", "text/event-stream")
	default:
		at.serve(d, w, r)
	}
}

// knownHost reports whether requests for a host are answered. A web site cannot claim an
// IP address or localhost, as it can a name.
func (d *Dashboard) knownHost(host string) bool {
	host = hostName(host)
	if _, err := netip.ParseAddr(host); err == nil || strings.EqualFold(host, "localhost") {
		return true
	}
	return slices.ContainsFunc(d.options.Hosts, func(known string) bool { return known == "*" || strings.EqualFold(hostName(known), host) })
}

// hostName returns a host without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.Trim(host, "[]")
}

// foreign reports whether another site has caused a request, of any method: also a GET
// makes the dashboard read the servers. Browsers say so if the address of the dashboard is
// https, localhost or a loopback address. Requests of other programs are not foreign.
func (d *Dashboard) foreign(r *http.Request) bool {
	as := *r
	as.Method = http.MethodPost // the check lets other methods pass
	return d.cross.Check(&as) != nil
}

// followsLink reports whether the user opens a page by a link. Only a visible page can
// cause such a request.
func followsLink(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

func asset(name, mediaType string) func(*Dashboard, http.ResponseWriter, *http.Request) {
	data, err := files.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // a misspelt name: every test would fail
	}
	return func(_ *Dashboard, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write(data) // the browser has gone
	}
}
