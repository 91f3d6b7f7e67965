package main_test

import (
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestUnlockAsks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := lsOpen(t, s)
	for _, tt := range []struct {
		name, answer string
		status       int
		says         string
	}{
		{"yes", "y\n", 0, `The lock is broken\.`},
		{"shout", "YES\n", 0, `The lock is broken\.`},
		{"no", "n\n", 1, `lock not broken: not confirmed`},
		{"nothing", "\n", 1, `lock not broken: not confirmed`},
		{"other", "yellow\n", 1, `lock not broken: not confirmed`},
		{"end", "\x04", 1, `lock not broken: not confirmed`},
		{"interrupt", "\x03", 130, `Break it\?`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			lease := lsHold(t, client.Mutex(tt.name))
			p := startTerminal(t, 80, 24, nil, "unlock", tt.name, "--force", "--url", s.URL())
			p.awaitOutput(t, lease.Owner()+`(?s).*Break it\? \[y/N\] $`)
			_, _ = io.WriteString(p.in, tt.answer)
			p.wait(t).want(t, tt.status, tt.says, "")
			if held := s.Int(t, "EXISTS", tt.name) == 1; held == (tt.status == 0) {
				t.Errorf("held: %v", held)
			}
		})
	}
}

// TestUnlockNewerHold checks that unlock does not break a hold that began after the
// question.
func TestUnlockNewerHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := lsOpen(t, s)
	old := lsHold(t, client.Mutex("orders"))
	p := startTerminal(t, 80, 24, nil, "unlock", "orders", "--force", "--url", s.URL())
	p.awaitOutput(t, `Break it\?`)
	if err := old.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	newer := lsHold(t, client.Mutex("orders"))
	_, _ = io.WriteString(p.in, "y\n")
	p.wait(t).want(t, 1, `lock not broken: it is now held by `+newer.Owner(), "")
	if !newer.Valid() || s.Int(t, "HEXISTS", "orders", newer.Owner()) != 1 {
		t.Error("the newer hold is broken")
	}

	p = startTerminal(t, 80, 24, nil, "unlock", "orders", "--force", "--url", s.URL())
	p.awaitOutput(t, `Break it\?`)
	if err := newer.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(p.in, "y\n")
	p.wait(t).want(t, 0, `The lock was released in the meantime`, "")
}

func TestUnlockWithoutTerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := lsOpen(t, s)
	unlock := func(args ...string) result {
		return execute(t, append([]string{"unlock", "orders", "--url", s.URL()}, args...)...)
	}
	held := func() bool { return s.Int(t, "EXISTS", "orders") == 1 }
	unlock("--force", "--yes").want(t, 123, "", `^holdfast: no lock orders: `)

	owner := lsHold(t, client.Mutex("orders")).Owner()
	unlock("--force").want(t, 2, "", "no terminal")
	unlock("--yes").want(t, 2, "", "add --force")
	unlock("--force", "--owner", "other:1").want(t, 1, "*", `lock not broken: it is held by `+owner)
	unlock("--force", "--owner", owner, "--owner", "another:1").want(t, 1, "*", `lock not broken`)
	if !held() {
		t.Fatal("it was broken")
	}
	unlock("--force", "--owner", owner).want(t, 0, `The lock is broken`, "")
	if held() {
		t.Error("it is still held")
	}

	readers := []string{"--force", "--json"}
	for range 2 {
		readers = append(readers, "--owner", lsHold(t, client.RWMutex("orders", holdfast.WriterFirst()).RLocker()).Owner()) // such readers share no hold
	}
	unlock(readers[:4]...).want(t, 1, `^\{"broken":false,"lock":\{"name":"orders","kind":"read/write mutex",`, "lock not broken: it is held by .* and 1 more")
	unlock(readers...).want(t, 0, `^\{"broken":true,"lock":\{"name":"orders","kind":"read/write mutex",`, "")
	if held() {
		t.Error("it is still held")
	}
	s.Do(t, "SET", "orders", "x")
	unlock("--force", "--yes").want(t, 1, "", "orders is not a lock")
}

// TestUnlockWakes checks that a waiter gets a broken lock.
func TestUnlockWakes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := lsOpen(t, s)
	lsHold(t, lsOpen(t, s).FairMutex("orders"))
	got := make(chan error, 1)
	go func() {
		_, err := client.FairMutex("orders").Lock(t.Context())
		got <- err
	}()
	eventually(t, "the lock has a waiter", func() bool { return s.Int(t, "LLEN", "redisson_lock_queue:{orders}") == 1 })
	execute(t, "unlock", "orders", "--force", "--yes", "--url", s.URL()).want(t, 0, "The lock is broken", "")
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// TestUnlockTerminated checks that a signal during the question does not break the
// lock.
func TestUnlockTerminated(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lease := lsHold(t, lsOpen(t, s).Mutex("orders"))
	p := startTerminal(t, 80, 24, nil, "unlock", "orders", "--force", "--url", s.URL())
	p.awaitOutput(t, `Break it\?`)
	p.signal(t, os.Interrupt)
	p.wait(t).want(t, 130, "*", "")
	if !lease.Valid() || s.Int(t, "EXISTS", "orders") != 1 {
		t.Error("it was broken")
	}
}

// TestUnlockDeadReaders has more readers than unlock checks, and the checked ones
// have expired. Another reader may hold the lock, so unlock must not call it free.
func TestUnlockDeadReaders(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	readers := []string{"HSET", "crowd", "mode", "read"}
	for i := range 1500 {
		readers = append(readers, fmt.Sprintf("285475da-9152-4c83-822a-67ee2f116a79:%d", i), "1")
	}
	s.Do(t, readers...)
	s.Do(t, "PEXPIRE", "crowd", "600000")
	execute(t, "ls", "--url", s.URL()).want(t, 0, `\ncrowd +more: holdfast show\n$`, "")
	execute(t, "show", "crowd", "--url", s.URL()).want(t, 0, `unknown: the readers that were checked have expired\n.*\d+ holders`, "")
	execute(t, "unlock", "crowd", "--force", "--yes", "--url", s.URL()).want(t, 1, "", "lock not broken: it may be held by owners that were not checked")
}

// TestUnlockNotice checks that unlock says when the holders of a broken lock notice.
func TestUnlockNotice(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := lsOpen(t, s)
	const java = "0b7a5a0e-6a43-4c0f-9a51-0d5f0a1c2b3d:42"
	if err := client.LeasedSemaphore("permits").Set(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	lsHold(t, client.LeasedSemaphore("permits").Locker(1))
	lsHold(t, client.Mutex("renewed"))
	lsHold(t, client.Mutex("fixed", holdfast.LeaseTime(time.Minute)))
	s.Do(t, "HSET", "java", java, "1")
	s.Do(t, "HSET", "both", "mode", "read", java, "1", client.ID()+":7", "1")
	for _, owner := range []string{java, client.ID() + ":7"} {
		s.Do(t, "SET", "{both}:"+owner+":rwlock_timeout:1", "1", "PX", "600000")
	}
	const own, redisson = `notices within Options\.RenewEvery, by default 10 seconds, also if the length of its lease is fixed\.`, `Redisson client,? .*notices only when it releases the lock\.`
	for name, says := range map[string]string{
		"renewed": `Its holder ` + own + `\n$`,
		"fixed":   `Its holder ` + own + `\n$`,
		"java":    `Its holder is a ` + redisson + `\n$`,
		"both":    `A holder that uses Holdfast ` + own + ` A ` + redisson + `\n$`,
		"permits": `A holder that uses Holdfast ` + own + ` A ` + redisson + `\n$`,
	} {
		execute(t, "unlock", name, "--force", "--yes", "--url", s.URL()).want(t, 0, `\nThe lock is broken\. `+says, "")
	}
}
