package script_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// A recorder is a driver that remembers the last call and its reply, and writes
// them down if it has where.
type recorder struct {
	driver.Driver
	call  driver.Call
	reply driver.Reply
	out   *strings.Builder
}

func (r *recorder) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	reply, err := r.Driver.Do(ctx, c)
	r.call, r.reply = c, reply
	if r.out != nil {
		if c.Script.Name == "object_idle" && reply.Int == 1 {
			reply.Int = 0 // another second has begun, by a clock that counts no less
		}
		fmt.Fprintf(r.out, "%s %s\n  keys   %q\n  args   %q\n  reply  %s\n", c.Script.Name, c.Script.SHA, c.Keys, c.Args, normal(reply))
	}
	return reply, err
}

const me, other = "11111111-2222-4333-8444-555555555555:1", "66666666-7777-4888-9999-000000000000:23"

// A step is something that a client does with the lock called job.
type step struct {
	what string
	do   op
}

// of is op for another name.
func of(name string, do op) op {
	return func(ctx context.Context, d driver.Driver, _ string) error { return do(ctx, d, name) }
}

var wire = map[string][]step{
	"mutex": {
		{"take a free lock", acquire(mutex, again(me, 1, 30))},
		{"try to take a held lock", acquire(mutex, again(other, 1, 30))},
		{"enter it again", acquire(mutex, again(me, 2, 30))},
		{"look at it", inspectMutex},
		{"leave it once", release(mutex, me, 1)},
		{"renew it, and a lock of another owner", renewAll(me, other)},
		{"release it", release(mutex, me, 0)},
		{"release it once more", release(mutex, me, 0)},
		{"enter again what is lost", acquire(mutex, again(me, 2, 30))},
		{"let another take it", acquire(mutex, again(other, 1, 30))},
		{"free it by force", forceMutex("")},
	},
	"fenced": {
		{"ask for the token of a new lock", inspectFenced},
		{"take a free lock", acquire(fenced, again(me, 1, 30))},
		{"try to take a held lock", acquire(fenced, again(other, 1, 30))},
		{"enter it again", acquire(fenced, again(me, 2, 30))},
		{"leave it once", release(fenced, me, 1)},
		{"renew it", renewAll(me)},
		{"release it", release(fenced, me, 0)},
		{"enter again what is lost", acquire(fenced, again(me, 2, 30))},
		{"let another take it", acquire(fenced, again(other, 1, 30))},
		{"free it by force", forceMutex(other)},
		{"ask for the token of the last grant", inspectFenced},
	},
	"fair": {
		{"take a free lock", acquire(fair, again(me, 1, 30))},
		{"try to take a held lock", acquire(fair, try(other))},
		{"queue for it", acquire(fair, wait(other))},
		{"give a sign of life", acquire(fair, wait(other))},
		{"enter it again", acquire(fair, again(me, 2, 30))},
		{"look at it", inspectFair},
		{"leave it once", release(fair, me, 1)},
		{"renew it", renewAll(me)},
		{"release it", release(fair, me, 0)},
		{"queue behind the other", acquire(fair, wait(me))},
		{"let the other take it", acquire(fair, wait(other))},
		{"leave the queue", release(fair, me, 0)},
		{"enter again what is lost", acquire(fair, again(me, 2, 30))},
		{"queue again", acquire(fair, wait(me))},
		{"free it by force", forceFair("")},
		{"leave the queue of a free lock", release(fair, me, 0)},
	},
	"election": {
		{"take a free lock", acquire(election, again(me, 1, 30))},
		{"look at a leader without a value", inspectElection},
		{"say who leads", proclaim(me, "10.0.0.1:80")},
		{"look who leads", inspectElection},
		{"say something else", proclaim(me, "10.0.0.1:81")},
		{"try to take a held lock", acquire(election, again(other, 1, 30))},
		{"say that another leads", proclaim(other, "10.0.0.2:80")},
		{"renew it", renewAll(me)},
		{"resign", release(election, me, 0)},
		{"look at an election without a leader", inspectElection},
		{"say too late who leads", proclaim(me, "10.0.0.1:80")},
		{"let another take it", acquire(election, again(other, 1, 30))},
		{"let it say so", proclaim(other, "10.0.0.2:80")},
		{"look who leads now", inspectElection},
	},
	"leased": leasedWire,
	"rwmutex": {
		{"take it to read", acquire(read, again(me, 1, 30))},
		{"let another read, too", acquire(read, again(other, 1, 60))},
		{"read again", acquire(read, again(me, 2, 100))},
		{"try to write", acquire(write, try(other))},
		{"wait to write, before new readers", acquire(writeFirst, wait("w:1"))},
		{"try to read", acquire(read, try("r:1"))},
		{"stop waiting", release(writeFirst, "w:1", 0)},
		{"look at it", inspectRW},
		{"leave it once", release(read, me, 1)},
		{"renew what is read, and what is not", renewReads(me, "r:1")},
		{"stop reading", release(read, me, 0)},
		{"be the last to stop reading", release(read, other, 0)},
		{"write", acquire(write, again(me, 1, 30))},
		{"write again", acquire(write, again(me, 2, 30))},
		{"try to read what another writes", acquire(read, try(other))},
		{"read under one's own writing", acquire(read, under("r:1", me))},
		{"look at it", inspectRW},
		{"stop writing once", release(write, me, 1)},
		{"stop writing, and go on reading", release(write, me, 0)},
		{"read again what is lost", acquire(read, again(me, 2, 30))},
		{"stop all readers by force", forceRead},
		{"let another write", acquire(write, again(other, 1, 30))},
		{"stop it by force", forceWrite},
	},
	"atomiclong":  atomicLongWire,
	"bucket":      bucketWire,
	"idgenerator": idGeneratorWire,
	"timeid":      timeIDWire,
	"object": {
		{"restore it for a minute", wired(1, func(o *script.Object, request string) driver.Call {
			return o.Restore(request, []string{dumpA, dumpA}, time.Minute, false)
		})},
		{"look whether it exists", looked(two, (*script.Object).Exists)},
		{"touch it", looked(two, (*script.Object).Touch)},
		{"look when it was used", looked(two, (*script.Object).Idle)},
		{"let it live longer", wired(2, func(o *script.Object, request string) driver.Call {
			return o.Expire(request, 10*time.Minute, []string{"XX", "GT"})
		})},
		{"let it end at a moment that is too late", wired(3, func(o *script.Object, request string) driver.Call {
			return o.ExpireAt(request, time.UnixMilli(9e12), []string{"LT"})
		})},
		{"let it live for ever", wired(4, (*script.Object).Persist)},
		{"look how long it lasts", looked(two, (*script.Object).TTL)},
		{"copy it", wired(5, func(o *script.Object, request string) driver.Call { return o.Copy(request, "{job}:copy", false) })},
		{"rename it to what the copy is called", wired(6, func(o *script.Object, request string) driver.Call {
			return o.Rename(request, "{job}:copy", false)
		})},
		{"rename it over the copy", wired(7, func(o *script.Object, request string) driver.Call {
			return o.Rename(request, "{job}:copy", true)
		})},
		{"delete what is gone", wired(8, func(o *script.Object, request string) driver.Call { return o.Delete(request, false) })},
	},
	"semaphore": {
		{"ask how many are free before there are any", available},
		{"give one back, if there is such a semaphore", giveIfExists(1, me+":1")},
		{"set the number of permits", setPermits(5, me+":2", 0)},
		{"set it again", setPermits(7, other+":1", 0)},
		{"take two", takePermits(2, me+":3")},
		{"send that again", takePermits(2, me+":3")},
		{"take more than there are", takePermits(4, other+":2")},
		{"give up a request that took two", undoPermits(2, me+":3")},
		{"give up one that took nothing", undoPermits(4, other+":2")},
		{"ask how many are free", available},
		{"take all", drainPermits(me + ":4")},
		{"give back one", givePermits(1, me+":5")},
		{"give back one, if there is such a semaphore", giveIfExists(1, me+":6")},
		{"take some away", givePermits(-2, me+":7")},
		{"set the number of permits of another one, for a time", of("spare", setPermits(5, me+":8", 100))},
	},
	"latch": {
		{"look at a latch that was never set", awaitLatch},
		{"count it down", countDown(me + ":1")},
		{"close it", setCount(2, me+":2")},
		{"close it again", setCount(3, other+":1")},
		{"look at it", awaitLatch},
		{"count down", countDown(me + ":3")},
		{"send that again", countDown(me + ":3")},
		{"count down to zero", countDown(other + ":2")},
		{"look at it", awaitLatch},
	},
	"ratelimiter": limiterWire,
	"inspect":     inspectWire,
}

// The wire is golden: a change of it is a change of the protocol, and goes
// together with docs/protocol.md and CHANGELOG.md.
func TestWire(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	channels := []string{
		"redisson_lock__channel:{job}", "redisson_lock__channel:{job}:" + me, "redisson_lock__channel:{job}:" + other, "redisson_rwlock:{job}",
		"holdfast:leader:{job}", "redisson_sc:{job}", "redisson_countdownlatch__channel__{job}",
	}
	ears := listen(t, s, d, channels...)
	for kind, steps := range wire {
		t.Run(kind, func(t *testing.T) {
			// The signs of life of those who wait are of one moment. If the machine
			// stood still, they are late, and what came of it is not golden.
			for begun := 1; ; begun++ {
				s.Do(t, "FLUSHALL")
				began := now(t, s)
				var out strings.Builder
				for _, step := range steps {
					fmt.Fprintf(&out, "# %s\n", step.what)
					if err := step.do(t.Context(), &recorder{Driver: d, out: &out}, "job"); err != nil {
						t.Fatal(step.what, err)
					}
					for _, line := range state(t, s) {
						fmt.Fprintf(&out, "  server %s\n", line)
					}
					for _, message := range ears.heard() {
						fmt.Fprintf(&out, "  heard  %s\n", message)
					}
					out.WriteString("\n")
				}
				if now(t, s)-began <= moment || begun == 10 {
					golden(t, "testdata/"+kind+".golden", out.String())
					return
				}
			}
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the wire has changed; if it is meant to, run go test ./internal/script -update\ngot:\n%s\nwant:\n%s", got, want)
	}
}

// decoders are calls that decode all kinds of replies.
var decoders = []op{
	acquire(mutex, try("a:1")), release(mutex, "a:1", 0), forceMutex(""), inspectMutex,
	acquire(fenced, try("a:1")), inspectFenced, proclaim("a:1", "A"), inspectElection,
	acquireGroup(parts), acquireGroup(mutexes), vote(1), acquire(leased(2), try("a:1")), release(leased(2), "a:1", 0), resize(3), inspectLeased("a:1.0"),
	acquire(fair, wait("a:1")), release(fair, "a:1", 0), forceFair(""), inspectFair,
	acquire(read, try("a:1")), release(read, "a:1", 0), forceRead, inspectRW,
	acquire(write, try("a:1")), release(write, "a:1", 0), forceWrite,
	loadLong, addLong(1), getBucket, expireBucket(0), sizeBucket, fetchIDs(script.Block{First: 1, Size: 5}), nextTimeIDs(script.Stamp{}, 2),
	deleted(two, false), dumped(two), looked(two, (*script.Object).Exists), looked(two, (*script.Object).Touch),
	looked(two, (*script.Object).TTL), looked(two, (*script.Object).Memory), looked(two, (*script.Object).Idle),
	takePermits(1, "a:1:7"), givePermits(1, "a:1:7"), drainPermits("a:1:7"), available,
	setCount(1, "a:1:7"), countDown("a:1:7"), awaitLatch, count,
	takeRate("a:1", 1, asLong), releaseRate("a:1:1", 1), inspectRate,
	walk("*", 0), walk("*", 1), look, breaks("mutex", [2]string{"a:1", "exclusive"}),
}

// Replies come from a server that may be broken, or not be Redis at all.
func FuzzDecode(f *testing.F) {
	f.Add(uint8(3), int64(1), "a", uint8(1), int64(2), "2")
	f.Add(uint8(3), int64(-2), "a:write", uint8(2), int64(0), "2")
	f.Add(uint8(1), int64(-1), "", uint8(0), int64(0), "")
	f.Add(uint8(3), int64(30000), "a:1", uint8(2), int64(0), "-9223372036854775809")
	f.Fuzz(func(_ *testing.T, type1 uint8, n1 int64, s1 string, type2 uint8, n2 int64, s2 string) {
		number, text := driver.Reply{Type: driver.Int, Int: n1}, driver.Reply{Type: driver.Str, Str: s1}
		inner := driver.Reply{Type: driver.ReplyType(type2 % 4), Int: n2, Str: s2}
		owners := driver.Reply{Type: driver.List, List: []driver.Reply{text, inner}}
		for _, list := range [][]driver.Reply{
			nil,
			{inner},
			{number, text, inner},                   // a mutex
			{number, text, text, inner},             // an election
			{number, text, text, number, inner},     // a read/write lock
			{number, number, number, number, inner}, // a group, a rate
			{number, inner},                         // a limiter
			{{Type: driver.List, List: []driver.Reply{number, text, inner}}, owners, inner}, // a fair mutex
			{text, owners}, // keys
			{text, text, text, number, number, {Type: driver.List, List: []driver.Reply{text, text, number, inner}}, owners}, // a lock of any kind
		} {
			for n := range len(list) + 1 {
				r := driver.Reply{Type: driver.ReplyType(type1 % 4), Int: n1, Str: s1, List: list[:n]}
				for _, do := range decoders {
					_ = do(context.Background(), canned{r}, "x")
				}
				_, _ = script.Renewed(r, 2)
				_, _ = script.DecodeInt64(r)
				_, _, _ = script.DecodeValue(r)
			}
		}
	})
}

type canned struct{ reply driver.Reply }

func (c canned) Do(context.Context, driver.Call) (driver.Reply, error) { return c.reply, nil }
func (canned) DoAcked(context.Context, []driver.Call, int, time.Duration) []driver.Result {
	return nil
}
func (canned) Watch(func()) func()                                   { return nil }
func (canned) DoMany(context.Context, []driver.Call) []driver.Result { return nil }
func (canned) Listen(driver.Handler) driver.Listener                 { return nil }
func (canned) Place(string) driver.Place                             { return driver.Place{} }
func (canned) Facts(context.Context, ...string) []driver.Facts       { return nil }
func (canned) Close() error                                          { return nil }
