package script_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A batcher is a driver that sends each call in a batch, between the same calls for two
// other names. A call that fails in the batch is sent again alone.
type batcher struct {
	driver.Driver
	testing.TB
	s       *redistest.Server
	batched map[string]bool // scripts that were sent in a batch
}

func (b batcher) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	if !script.CanBatch(c) {
		return b.Driver.Do(ctx, c)
	}
	b.batched[c.Script.Name] = true
	var batch script.Batch
	batch.Add(beside(c, "before"))
	batch.Add(c)
	batch.Add(beside(c, "after"))
	call := batch.Call()
	reply, err := b.Driver.Do(ctx, call)
	if err != nil {
		return driver.Reply{}, err
	}
	alone := false
	if err := batch.Decode(reply, func(i int, r driver.Reply, failed bool) {
		switch {
		case i == 1:
			reply, alone = r, failed
		case failed:
			b.Errorf("%s: the call %d has failed, too", call.Script.Name, i)
		}
	}); err != nil {
		b.Error(err)
	}
	for _, key := range b.s.Keys(b) {
		if strings.Contains(key, "before") || strings.Contains(key, "after") {
			b.s.Do(b, "DEL", key)
		}
	}
	if alone {
		return b.Driver.Do(ctx, c)
	}
	return reply, nil
}

// beside returns the same call for another name.
func beside(c driver.Call, name string) driver.Call {
	rename := func(all []string) []string {
		all = slices.Clone(all)
		for i, s := range all {
			if len(s) < 200 {
				all[i] = strings.ReplaceAll(strings.ReplaceAll(s, "{N", "{"+name), "x{", name+"{")
			}
			if s == "N" {
				all[i] = name
			}
		}
		return all
	}
	return driver.Call{Script: c.Script, Keys: rename(c.Keys), Args: rename(c.Args)}
}

// TestBatchedCalls runs the rows of all scripts, each in a batch with two other calls.
// The reply, the data and the messages must be those of a call alone.
func TestBatchedCalls(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	batched := make(map[string]bool)
	for _, r := range slices.Concat(mutexRows, queuedRows, fencedRows, rwRows, semaphoreRows, permitRows, leasedRows, limiterRows) {
		if r.full || r.title == "read/again, too often" {
			continue // after the first write of a batch, nothing is refused; and this fails for all names
		}
		t.Run(r.title, func(t *testing.T) {
			b := batcher{d, t, s, batched}
			inAMoment(t, s, d, "N", func(l *lab) {
				defer r.prepare(l)()
				// A call that fails in the batch is sent twice.
				if got := l.call(b, r.do); got != r.reply && (r.or == "" || got != r.or) && (r.again == "" || got != r.again) {
					l.wrong("reply %s, want %s", got, r.reply)
				}
				l.has(r.state...)
				l.hears(r.heard)
			})
		})
	}
	for _, s := range script.Batched() {
		if !batched[s.Name] {
			t.Errorf("script %s was in no batch", s.Name)
		}
	}
}

// TestBatch has calls of which some get the lock, some do not, and some fail.
func TestBatch(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	s.Do(t, "HSET", "held", "other:1", "1")
	s.Do(t, "PEXPIRE", "held", "60000")
	s.Do(t, "SET", "string", "foreign")
	names := []string{"free:1", "held", "string", "free:2", "free:1"}
	run := func(call func(name string) driver.Call) string {
		t.Helper()
		var b script.Batch
		for _, name := range names {
			b.Add(call(name))
		}
		r, err := d.Do(t.Context(), b.Call())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := b.Decode(r, func(i int, r driver.Reply, failed bool) {
			text := normal(r)
			if failed {
				text = "failed"
			}
			got = append(got, names[i]+" "+text)
		}); err != nil {
			t.Fatal(err)
		}
		return strings.Join(got, ", ")
	}
	owner := 0
	claim := func(name string) driver.Call {
		owner++
		return script.NewMutex(name).Claim(again(fmt.Sprint("me:", owner), 1, 60))
	}
	if got, want := run(claim), "free:1 token, held held 60s, string failed, free:2 token, free:1 held 60s"; got != want {
		t.Errorf("acquired: %s\nwant %s", got, want)
	}
	owner = 0
	free := func(name string) driver.Call {
		owner++
		return script.NewMutex(name).Queued().Free(fmt.Sprint("me:", owner))
	}
	if got, want := run(free), "free:1 1, held 0, string failed, free:2 1, free:1 0"; got != want {
		t.Errorf("released: %s\nwant %s", got, want)
	}
	if got := strings.Join(s.Keys(t), " "); got != "held string" {
		t.Errorf("left: %s", got)
	}
	// All at once: the usual case has a path of its own, and the token of one is that of all.
	names = []string{"free:1", "free:2", "free:3"}
	owner = 0
	if got, want := run(claim), "free:1 token, free:2 token, free:3 token"; got != want {
		t.Errorf("acquired: %s\nwant %s", got, want)
	}
	for i, name := range names {
		if got := s.Do(t, "HGET", name, fmt.Sprint("me:", i+1)); got != "1" {
			t.Errorf("%s: the count of its owner is %v", name, got)
		}
		if ttl := s.Do(t, "PTTL", name).(int64); ttl < 50_000 || ttl > 60_000 {
			t.Errorf("%s: TTL %d ms", name, ttl)
		}
	}
	// One of them has a queue, with a client that does not listen.
	s.Do(t, "ZADD", "holdfast:queue:{free:2}", "1", "11111111-2222-8333-8444-555555555555:1")
	owner = 0
	if got, want := run(free), "free:1 1, free:2 1, free:3 1"; got != want {
		t.Errorf("released: %s\nwant %s", got, want)
	}
	if s.Int(t, "EXISTS", "holdfast:queue:{free:2}") == 1 {
		t.Error("the release has not looked at the queue")
	}
	names = []string{"free:1", "held"} // one of them is held
	if got, want := run(claim), "free:1 token, held held 60s"; got != want {
		t.Errorf("acquired: %s\nwant %s", got, want)
	}
	names = []string{"free:1", "free:1"} // the same name twice
	if got, want := run(claim), "free:1 held 60s, free:1 held 60s"; got != want {
		t.Errorf("acquired again: %s\nwant %s", got, want)
	}
	s.Do(t, "DEL", "free:1")
	if got, want := run(claim), "free:1 token, free:1 held 60s"; got != want {
		t.Errorf("acquired twice: %s\nwant %s", got, want)
	}
}

// TestBatchOfOneOwner has an owner release several mutexes. A path of its own is for the
// case that it holds all of them.
func TestBatchOfOneOwner(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	names := []string{"a", "b", "c"}
	ears := listen(t, s, d, script.NewMutex("b").Channels("")...)
	run := func() (got []string) {
		t.Helper()
		var b script.Batch
		for _, name := range names {
			b.Add(script.NewMutex(name).Free("me:1"))
		}
		r, err := d.Do(t.Context(), b.Call())
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Decode(r, func(_ int, r driver.Reply, failed bool) {
			got = append(got, fmt.Sprint(normal(r), failed))
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, test := range []struct {
		title string
		given []string // the owner of each
		want  string
		left  string
	}{
		{"all held", []string{"me:1", "me:1", "me:1"}, "[1false 2false 1false]", "[]"},
		{"one held by another", []string{"me:1", "me:1", "you:1"}, "[1false 2false 0false]", "[c]"},
		{"the first held by another", []string{"you:1", "me:1", "me:1"}, "[0false 2false 1false]", "[a]"},
	} {
		s.Do(t, "FLUSHALL")
		for i, owner := range test.given {
			s.Do(t, "HSET", names[i], owner, "1")
		}
		if got := fmt.Sprint(run()); got != test.want {
			t.Errorf("%s: %s, want %s", test.title, got, test.want)
		}
		if left := fmt.Sprint(s.Keys(t)); left != test.left {
			t.Errorf("%s: left %s, want %s", test.title, left, test.left)
		}
	}
	if heard := ears.heard(); len(heard) != 3 {
		t.Errorf("heard %v", heard)
	}
}
