package mutants

func init() { All = append(All, dashboards...) }

// dashboards holds the mutants of the dashboard.
var dashboards = []Mutant{
	{
		"the names of locks are part of the HTML",
		"dashboard/dashboard.go", `	"html/template"`, `	"text/template"`,
		"dashboard", "TestEscaping",
	},
	{
		"control characters of names are not made visible",
		"internal/display/display.go", "		case !m.Harmless(r):\n", "		case false:\n",
		"dashboard", "TestEscaping",
	},
	{
		"names are not encoded in links",
		"dashboard/view.go", `"lock?name=" + url.QueryEscape(name)`, `"lock?name=" + name`,
		"dashboard", "TestEscaping",
	},
	{
		"rows repeat long names as their ids",
		"dashboard/view.go", "len(id) <= 64 {", "true {",
		"dashboard", "TestFloods/many_names",
	},
	{
		"all deadlocks are on one page",
		"dashboard/deadlocks_page.go", "p.deadlocks[:min(len(p.deadlocks), mostDeadlocks)]", "p.deadlocks",
		"dashboard", "TestFloods/many_waits",
	},
	{
		"the JSON has raw control characters",
		"internal/display/display.go", "if r == utf8.RuneError || r <= ' ' || m.Harmless(r) {", "if true {",
		"dashboard", "TestEscaping",
	},
	{
		"a page repeats the raw query",
		"dashboard/pages.go", "r.URL.Query().Encode()", "r.URL.RawQuery",
		"dashboard", "TestEscaping",
	},
	{
		"locks can be broken without AllowBreak",
		"dashboard/break.go", "	case !d.options.AllowBreak:\n", "	case false:\n",
		"dashboard", "TestBreakNotAllowed",
	},
	{
		"requests of other sites are accepted",
		"dashboard/dashboard.go", "	case d.foreign(r) && (!at.page || !followsLink(r)):\n", "	case false:\n",
		"dashboard", "TestServers",
	},
	{
		"other sites can make the dashboard read",
		"dashboard/dashboard.go", "	as.Method = http.MethodPost // the check lets other methods pass\n", "",
		"dashboard", "TestOtherSites",
	},
	{
		"a frame on another site shows the dashboard",
		"dashboard/dashboard.go", ` && r.Header.Get("Sec-Fetch-Dest") == "document"`, "",
		"dashboard", "TestOtherSites",
	},
	{
		"a link on another site costs a scan",
		"dashboard/pages.go", "	if !d.foreign(r) {", "	if true {",
		"dashboard", "TestOtherSites",
	},
	{
		"a name that resolves to the dashboard can be used for it",
		"dashboard/dashboard.go", `err == nil || strings.EqualFold(host, "localhost")`, `err == nil || strings.EqualFold(host, "localhost") || len(d.options.Hosts) == 0`,
		"dashboard", "TestHosts",
	},
	{
		"the command lets the network break locks without a list of hosts",
		"cmd/holdfast/dashboard.go", "	if insecure && o.AllowBreak && len(o.Hosts) == 0 {\n", "	if false {\n",
		"cmd/holdfast", "TestCheckHosts",
	},
	{
		"the number of a page of the list overflows",
		"dashboard/locks_page.go", "min(l.page, max(len(found)-1, 0)/perPage) * perPage", "min(l.page*perPage, max(len(found)-1, 0)/perPage*perPage)",
		"dashboard", "TestParameters",
	},
	{
		"idle connections to the dashboard stay",
		"cmd/holdfast/dashboard.go", "2 * time.Minute, // longer", "-1, // longer",
		"cmd/holdfast", "TestIdleConnections",
	},
	{
		"a timeout of the server ends the stream",
		"dashboard/stream.go", "		_ = out.SetWriteDeadline(time.Now().Add(writeTime)) // not supported: the browser may be slow\n", "		_ = writeTime\n",
		"dashboard", "TestStreamTimeouts",
	},
	{
		"the form that breaks a lock works in any browser",
		"dashboard/break.go", `h.Write([]byte(session + "\x00"))`, `h.Write([]byte("\x00"))`,
		"dashboard", "TestBreakForged",
	},
	{
		"the form that breaks a lock is not signed",
		"dashboard/break.go", "if !hmac.Equal(sum, d.mac(data, session)) {", "if !hmac.Equal(sum, sum) {",
		"dashboard", "TestBreakForged",
	},
	{
		"a lock is freed although another owner holds it",
		"dashboard/break.go", "broken, err := d.scanner.inspect.Break(ctx, lock)", "now, _ := d.scanner.inspect.Lock(ctx, lock.Name)\n	broken, err := d.scanner.inspect.Break(ctx, now)",
		"dashboard", "TestBreakChanged",
	},
	{
		"an attempt to break a lock is not recorded",
		"dashboard/break.go", "	d.options.Audit(Action{Lock: lock, Broken: broken, Err: err, Request: r})\n", "",
		"dashboard", "TestBreak$",
	},
	{
		"the scanner runs although no page is open",
		"dashboard/scanner.go", "	return false\n}\n\n// next returns", "	return true\n}\n\n// next returns",
		"dashboard", "TestViewers",
	},
	{
		"the scanner reads the server all the time",
		"dashboard/scanner.go", "max(s.options.Every, share*p.load)", "s.options.Every",
		"dashboard", "TestPace",
	},
	{
		"the stream repeats what has not changed",
		"dashboard/stream.go", "		differs := s.known[key] != now[key]\n", "		differs := true\n",
		"dashboard", "TestStream",
	},
	{
		"requests for any host are answered",
		"dashboard/dashboard.go", "	if !d.knownHost(r.Host) {\n", "	if false {\n",
		"dashboard", "TestHosts",
	},
	{
		"the data of a dead server is shown as live",
		"dashboard/view.go", "return !c.Read.IsZero() && now.Sub(c.Read) > c.Limit", "return false",
		"dashboard", "TestOutOfDate",
	},
	{
		"a round that has failed counts as read",
		"dashboard/scanner.go", "p.read, p.limit, p.failed = last.read, last.limit, last.failed+1", "p.read, p.limit = p.at, last.limit",
		"dashboard", "TestOutOfDate",
	},
	{
		"times go on while the server is dead",
		"dashboard/pages.go", `	if doc.Stale || stream == "" {`, `	if stream == "" {`,
		"dashboard", "TestOutOfDate",
	},
	{
		"the list of a server that was never read says that no locks are held",
		"dashboard/pages.go", "		c.unknown(shot.err != nil)\n", "",
		"dashboard", "TestNeverRead",
	},
	{
		"a lock that cannot be read is free",
		"dashboard/lock_page.go", "	case err != nil: // what holds the lock is not known\n", "	case false:\n",
		"dashboard", "TestOutOfDate",
	},
	{
		"a name without a key is a free mutex",
		"dashboard/lock_page.go", "	case nothing(s) && len(spans) == 0:\n", "	case false:\n",
		"dashboard", "TestNoSuchLock",
	},
	{
		"a short lease always looks as if it expires soon",
		"dashboard/snapshot.go", "< s.holds[i].lease/4", "< 5*time.Second",
		"dashboard", "TestSoon",
	},
	{
		"a deadlock is visible on its own page only",
		"dashboard/deadlocks_page.go", "				locks[name] = true\n", "				locks[name] = false\n",
		"dashboard", "TestStuck",
	},
	{
		"pages have no policy against foreign scripts",
		"dashboard/dashboard.go", "	h.Set(\"Content-Security-Policy\", policy)\n", "",
		"dashboard", "TestHeaders",
	},
	{
		"looking at a rate limiter needs a right to write",
		"internal/script/lua/inspect_limiter.lua", "local used = -1\n", "local used = -1\nredis.call('zremrangebyscore', KEYS[3], '-inf', clock() - interval - 1)\n",
		"inspect", "TestLimiters",
	},
}
