package script_test

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

func connect(t *testing.T, url string) driver.Driver {
	t.Helper()
	c, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c.Timeout, c.DialTimeout = 10*time.Second, 10*time.Second // the machine may stand still for longer than the default
	d, err := rueidis.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// A row is one branch of one script: what the server has before, what is
// asked, and what comes of it.
//
// Commands and states are written in short, see lab.long: N is the lock, +70
// in a command is 70 s from now, a ~ in one is a space, a:1#2 is the key of the
// second hold of the reader a:1, mark:a:1 that of the lane a:1, ./x is the key
// {N}:x, and @a:1*2 is an entry in the log of a rate limiter. Times are rounded
// up to 3 s or to tens of seconds.
type row struct {
	title string
	given []string // commands of other clients, a Java one's as well
	full  bool     // the server is out of memory
	do    op
	or    string // another reply that is as good: a second may have passed
	reply string
	again string   // the reply if it is sent again; else the same
	state []string // all keys, sorted
	twice []string // the same after it was sent again, if that differs
	heard string   // what was published
}

// An op is a call of a script for the lock with that name.
type op func(ctx context.Context, d driver.Driver, name string) error

type kind interface {
	script.Claimer
	Release(ctx context.Context, d driver.Driver, owner string, left int) (script.Freed, error)
}

func mutex(name string) kind { return script.NewMutex(name) }

func queued(name string) kind { return script.NewMutex(name).Queued() }

func queuedFenced(name string) kind { return script.NewFenced(name).Queued() }

func queuedWrite(name string) kind { return script.NewWrite(name, false).Queued() }

func queuedWriteFirst(name string) kind { return script.NewWrite(name, true).Queued() }

func queuedRead(name string) kind { return script.NewRead(name).Queued() }

func fenced(name string) kind { return script.NewFenced(name) }

func fair(name string) kind { return script.NewFair(name) }

func queuedFair(name string) kind { return script.NewFair(name).Queued() }

func read(name string) kind { return script.NewRead(name) }

func write(name string) kind { return script.NewWrite(name, false) }

func writeFirst(name string) kind { return script.NewWrite(name, true) }

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func try(owner string) script.Claim { return script.Claim{Owner: owner, Count: 1, Lease: time.Minute} }

func wait(owner string) script.Claim {
	c := try(owner)
	c.Wait = true
	return c
}

func line(owner string) script.Claim {
	c := wait(owner)
	c.Queue = true
	return c
}

// brief is a claim of the owner a:1 that queues and wants a lock for a short time.
func brief() script.Claim {
	c := line("a:1")
	c.Lease = seconds(1)
	return c
}

// bounded is a claim of the owner a:1 that queues if fewer than most do.
func bounded(most int) script.Claim {
	c := line("a:1")
	c.Most = most
	return c
}

// checked is a claim of the owner a:1 that queues if it may leave the queue, too.
func checked() script.Claim {
	c := line("a:1")
	c.Check = true
	return c
}

func again(owner string, count, lease int) script.Claim {
	return script.Claim{Owner: owner, Count: count, Lease: seconds(lease)}
}

func under(owner, writer string) script.Claim {
	c := try(owner)
	c.Under = writer
	return c
}

func acquire(k func(string) kind, c script.Claim) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := script.Acquire(ctx, d, k(name), c)
		return err
	}
}

func release(k func(string) kind, owner string, left int) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := k(name).Release(ctx, d, owner, left)
		return err
	}
}

// A lab is a server of its own and a look at everything in it.
type lab struct {
	*testing.T
	s          *redistest.Server
	d          driver.Driver
	name, root string // of the lock; root is what Redisson derives other keys from
	ears       *ears
	faults     *[]string // what is wrong, if it is not reported at once
}

// newLab returns a lab for the lock with that name: N, or x{N}y, which has a
// hash tag of its own.
func newLab(t *testing.T, s *redistest.Server, d driver.Driver, name string) *lab {
	t.Helper()
	s.Do(t, "FLUSHALL")
	l := &lab{T: t, s: s, d: d, name: name, root: name}
	if !strings.Contains(name, "{") {
		l.root = "{" + name + "}"
	}
	channels := []string{l.long("rw"), l.long("channel"), l.long("news"), l.long("sc"), l.long("latch")}
	channels = append(channels, l.long("line"), l.long("line")+":b", l.long("line")+":c") // of waiting clients
	for _, owner := range []string{"a:1", "b:1", "c:1", "j:7"} {
		channels = append(channels, l.long("channel")+":"+owner)
	}
	l.ears = listen(t, s, d, channels...)
	return l
}

// short are the keys and channels of a lock, without its name.
var short = map[string]string{
	"channel": "redisson_lock__channel", "queue": "redisson_lock_queue", "limits": "redisson_lock_timeout", "signs": "holdfast:waiting",
	"line": "holdfast:queue", "token": "redisson_lock_token", "rw": "redisson_rwlock", "writers": "holdfast:writers", "news": "holdfast:leader", "sc": "redisson_sc",
}

// latch is the channel of a latch, which is not derived like the others.
func (l *lab) latch() string { return "redisson_countdownlatch__channel__{" + l.name + "}" }

// long returns the key that is written in short.
func (l *lab) long(word string) string {
	if p, ok := short[word]; ok {
		return p + ":" + l.root
	}
	if word == "timeout" {
		return l.root + ":" + word
	}
	if owner, n, ok := strings.Cut(word, "#"); ok {
		return l.root + ":" + owner + ":rwlock_timeout:" + n
	}
	if lane, ok := strings.CutPrefix(word, "mark:"); ok {
		return "holdfast:once:" + l.root + ":" + lane
	}
	switch word {
	case "N":
		return l.name
	case "allocation":
		return l.root + ":" + word
	case "to":
		return sibling(l.name)
	case "to:allocation":
		return sibling(l.name) + ":allocation"
	case "latch":
		return l.latch()
	}
	if suffix, ok := strings.CutPrefix(word, "./"); ok {
		return l.root + ":" + suffix
	}
	if strings.HasPrefix(word, "@") {
		return longEntry(word)
	}
	return word
}

// short undoes long in a text.
func (l *lab) short(s string) string {
	s = strings.ReplaceAll(s, l.latch(), "latch")
	for word, p := range short {
		s = strings.ReplaceAll(s, p+":"+l.root, word)
	}
	s = strings.ReplaceAll(s, l.long("latch"), "latch")
	s = strings.ReplaceAll(s, l.long("to"), "to")
	s = strings.ReplaceAll(s, l.root+":", "")
	s = shortIDs(s)
	s = tokens.ReplaceAllString(s, " token ")
	s = firsts.ReplaceAllStringFunc(s, func(told string) string { // what is left of a TTL, in whole seconds
		ms, _ := strconv.Atoi(told[len("first "):])
		return fmt.Sprint("first ", (ms+500)/1000*1000)
	})
	s = strings.ReplaceAll(s, ":rwlock_timeout:", "#")
	return strings.ReplaceAll(s, l.name, "N")
}

var (
	tokens = regexp.MustCompile(` \d{16} `)
	firsts = regexp.MustCompile(`first \d{4,}`)
)

// run executes commands.
func (l *lab) run(commands ...string) {
	l.Helper()
	for _, c := range commands {
		args := strings.Fields(c)
		for i, a := range args {
			args[i] = strings.ReplaceAll(l.long(a), "~", " ")
			if after, ok := strings.CutPrefix(a, "+"); ok {
				s, err := strconv.ParseFloat(after, 64)
				if err != nil {
					l.Fatal(c, err)
				}
				args[i] = strconv.FormatFloat(float64(now(l, l.s))+s*1000, 'f', -1, 64)
			}
			if raw, ok := permitIDs[a]; ok {
				args[i] = raw
			}
		}
		l.s.Do(l, args...)
	}
}

// call executes an operation and returns its reply.
func (l *lab) call(d driver.Driver, do op) string {
	l.Helper()
	spy := &recorder{Driver: d}
	err := do(l.Context(), spy, l.name)
	switch {
	case driver.CodeOf(err) != "":
		return driver.CodeOf(err)
	case err != nil:
		return driver.ClassOf(err).String()
	}
	return normal(spy.reply)
}

func (l *lab) state() []string {
	l.Helper()
	lines := state(l, l.s)
	for i := range lines {
		lines[i] = inOrder(l.short(lines[i]))
	}
	slices.Sort(lines)
	return lines
}

func (l *lab) has(want ...string) {
	l.Helper()
	if got := l.state(); !slices.Equal(got, want) {
		l.wrong("the server has\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func (l *lab) hears(want string) {
	l.Helper()
	if got := l.short(strings.Join(l.ears.heard(), ", ")); got != want {
		l.wrong("heard %q, want %q", got, want)
	}
}

// wrong reports what is not as it should be, or leaves that to inAMoment.
func (l *lab) wrong(format string, args ...any) {
	l.Helper()
	if l.faults == nil {
		l.Errorf(format, args...)
		return
	}
	*l.faults = append(*l.faults, fmt.Sprintf(format, args...))
}

// moment is how long what is said of a moment may take, in ms of the server:
// less than what makes a difference to those who wait, which is half a second.
const moment = 400

// inAMoment runs a test that is about a moment in a new lab, which reports by
// lab.wrong. If the machine stood still meanwhile, those who wait were silent
// for longer than the test says, and what it saw is not what it is about: it
// begins anew. One that always takes longer is judged all the same.
func inAMoment(t *testing.T, s *redistest.Server, d driver.Driver, name string, test func(l *lab)) {
	t.Helper()
	for begun := 1; ; begun++ {
		began := now(t, s)
		l := newLab(t, s, d, name)
		faults := []string{}
		l.faults = &faults
		test(l)
		took := now(t, s) - began
		l.ears.close()
		if len(faults) == 0 || took <= moment || begun == 10 {
			for _, f := range faults {
				t.Error(f)
			}
			return
		}
		t.Logf("took %d ms, and begins anew", took)
	}
}

// check runs rows, each on a lock without a hash tag and on one with.
func check(t *testing.T, rows []row) { checkNamed(t, rows, "N", "x{N}y") }

func checkNamed(t *testing.T, rows []row, names ...string) {
	checkBy(t, func(d driver.Driver) driver.Driver { return d }, rows, names...)
}

// checkBy runs rows with a driver that may change the calls.
func checkBy(t *testing.T, by func(driver.Driver) driver.Driver, rows []row, names ...string) {
	s := redistest.Start(t)
	d := by(connect(t, s.URL()))
	for _, r := range rows {
		for _, name := range names {
			t.Run(r.title+"/"+name, func(t *testing.T) {
				inAMoment(t, s, d, name, func(l *lab) {
					defer r.prepare(l)()
					if got := l.call(d, r.do); got != r.reply && (r.or == "" || got != r.or) {
						l.wrong("reply %s, want %s", got, r.reply)
					}
					l.has(r.state...)
					l.hears(r.heard)
				})
			})
		}
	}
}

// prepare brings about what is given, and returns what ends it.
func (r row) prepare(l *lab) (end func()) {
	l.Helper()
	l.run(r.given...)
	if !r.full {
		return func() {}
	}
	l.s.Do(l, "CONFIG", "SET", "maxmemory", "1")
	return func() { l.s.Do(l, "CONFIG", "SET", "maxmemory", "0") }
}

// now is the clock of the server in ms.
func now(t testing.TB, s *redistest.Server) int64 {
	t.Helper()
	clock := s.Strings(t, "TIME")
	sec, err1 := strconv.ParseInt(clock[0], 10, 64)
	usec, err2 := strconv.ParseInt(clock[1], 10, 64)
	if err := cmp.Or(err1, err2); err != nil {
		t.Fatal(err)
	}
	return sec*1000 + usec/1000
}

// state is everything on the server: a line for each key.
func state(t testing.TB, s *redistest.Server) []string {
	t.Helper()
	var lines []string
	for _, key := range s.Keys(t) {
		kind := fmt.Sprint(s.Do(t, "TYPE", key))
		line := key + " " + kind
		switch kind {
		case "string":
			line += fmt.Sprint(" ", s.Do(t, "GET", key))
		case "list":
			line += " " + strings.Join(s.Strings(t, "LRANGE", key, "0", "-1"), " ")
		case "set":
			members := s.Strings(t, "SMEMBERS", key)
			slices.Sort(members)
			line += " " + strings.Join(members, " ")
		case "hash":
			for _, f := range pairs(s.Strings(t, "HGETALL", key)) {
				line += " " + f[0] + "=" + f[1]
			}
		case "zset":
			for _, f := range pairs(shortEntries(s.Strings(t, "ZRANGE", key, "0", "-1", "WITHSCORES"))) {
				score, err := strconv.ParseFloat(f[1], 64)
				if err != nil {
					t.Fatal(key, err)
				}
				member := f[0]
				if score != math.Floor(score) {
					member += "*" // its client listens for grants
				}
				if strings.HasSuffix(key, ":timeout") {
					member = hex.EncodeToString([]byte(member)) // the id of a permit
				}
				line += " " + member + "+" + round(int64(score)-now(t, s))
			}
		}
		if ttl := s.Int(t, "PTTL", key); ttl != -1 {
			line += ", TTL " + round(ttl)
		}
		lines = append(lines, line)
	}
	return lines
}

// pairs sorts what a hash or a sorted set has.
func pairs(list []string) [][2]string {
	m := make(map[string]string)
	for i := 0; i+1 < len(list); i += 2 {
		m[list[i]] = list[i+1]
	}
	var out [][2]string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, [2]string{k, m[k]})
	}
	return out
}

// round writes a time so that it does not differ between runs: up to 3 s, or
// to tens of seconds.
func round(ms int64) string {
	const slack = 50
	switch {
	case ms <= 0:
		return "past"
	case ms <= 3000+slack:
		return "3s"
	case ms > 1e14:
		return "never"
	}
	// Wall clocks are set back by some ms now and then: what was to be 60 s is
	// not 70 for that.
	return fmt.Sprintf("%ds", max((ms-slack+9999)/10000*10, 10))
}

// normal writes a reply with everything replaced that differs between runs. A
// negative number is the answer to a claim.
func normal(r driver.Reply) string {
	switch {
	case r.Type == driver.Int && r.Int > 1e15:
		return "token"
	case r.Type == driver.Int && r.Int < 0:
		return "held " + round(-1-r.Int)
	case r.Type == driver.List:
		var parts []string
		for _, e := range r.List {
			switch {
			case e.Type == driver.Int && e.Int >= 1000 && e.Int < 1e15:
				parts = append(parts, round(e.Int))
			case e.Type == driver.Int && e.Int >= -2 && e.Int < 1e15:
				parts = append(parts, fmt.Sprint(e.Int))
			default:
				parts = append(parts, normal(e))
			}
		}
		return "[" + strings.Join(parts, " ") + "]"
	case r.Type == driver.Int:
		return fmt.Sprint(r.Int)
	case r.Type == driver.Str:
		return fmt.Sprintf("%q", r.Str)
	}
	return "nil"
}

// ears hear what is published on some channels.
type ears struct {
	t         testing.TB
	s         *redistest.Server
	messages  chan string
	confirmed chan struct{}
	close     func()
}

const curtain = "the end" // a channel that shows that all has been heard

// listen returns ears for channels, from now on.
func listen(t testing.TB, s *redistest.Server, d driver.Driver, channels ...string) *ears {
	t.Helper()
	e := &ears{t: t, s: s, messages: make(chan string, 100), confirmed: make(chan struct{}, 100)}
	l := d.Listen(e)
	e.close = func() { _ = l.Close() }
	t.Cleanup(e.close)
	channels = append(channels, curtain)
	l.Subscribe(channels...)
	for range channels {
		<-e.confirmed
	}
	return e
}

// heard returns what was published since it was asked last.
func (e *ears) heard() (all []string) {
	e.t.Helper()
	e.s.Do(e.t, "PUBLISH", curtain, "")
	for m := range e.messages {
		if m == " on "+curtain {
			break
		}
		all = append(all, m)
	}
	return all
}

func (e *ears) Message(channel, payload string) { e.messages <- payload + " on " + channel }

func (e *ears) Subscribed(string, uint64) { e.confirmed <- struct{}{} }

func (e *ears) Lost([]string, error) {}

// A still is a driver to a server whose time stands still, at that many ms.
type still struct {
	*testing.T
	driver.Driver
	name string // of what is tested
	at   int64
}

// begin is the time at which stills begin: an interval before it there must be
// time, too.
const begin = 1_000_000_000_000

// Do runs a script with the time of the still instead of the server's.
func (s *still) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	source := strings.Replace(c.Script.Source, "redis.call('time')", fmt.Sprintf("{ %d, %d }", (begin+s.at)/1000, (begin+s.at)%1000*1000), 1)
	if source == c.Script.Source {
		s.Fatalf("%s does not ask for the time", c.Script.Name)
	}
	c.Script = driver.NewScript(c.Script.Name, source)
	return s.Driver.Do(ctx, c)
}

func (s *still) wants(want, got int64) {
	s.Helper()
	if got != want {
		s.Errorf("at %d ms: %d, want %d", s.at, got, want)
	}
}

const request = "c:0:7" // the seventh of client c, in its lane 0

// calling makes a call and does not look at its reply.
func calling(call func(name string) driver.Call) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := d.Do(ctx, call(name))
		return err
	}
}

// once is what the server remembers of the request.
func once(answer string) string { return "holdfast:once:c:0 string 7 " + answer + ", TTL 600s" }
