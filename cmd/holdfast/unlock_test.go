package main_test

import (
	"fmt"
	"io"
	"os"
	"testing"

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
			p.shows(t, lease.Owner()+`(?s).*Break it\? \[y/N\] $`)
			_, _ = io.WriteString(p.in, tt.answer)
			p.wait(t).want(t, tt.status, tt.says, "")
			if held := s.Int(t, "EXISTS", tt.name) == 1; held == (tt.status == 0) {
				t.Errorf("held: %v", held)
			}
		})
	}
}

// Who takes the lock between the question and the answer keeps it.
func TestUnlockNewerHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := lsOpen(t, s)
	old := lsHold(t, client.Mutex("orders"))
	p := startTerminal(t, 80, 24, nil, "unlock", "orders", "--force", "--url", s.URL())
	p.shows(t, `Break it\?`)
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
	p.shows(t, `Break it\?`)
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
		return hold(t, append([]string{"unlock", "orders", "--url", s.URL()}, args...)...)
	}
	held := func() bool { return s.Int(t, "EXISTS", "orders") == 1 }
	unlock("--force", "--yes").want(t, 0, `^orders is free: nothing to break\.\n$`, "")

	owner := lsHold(t, client.Mutex("orders")).Owner()
	unlock("--force").want(t, 2, "", "no terminal")
	unlock("--yes").want(t, 2, "", "add --force")
	unlock("--force", "--owner", "somebody:1").want(t, 1, "*", `lock not broken: it is held by `+owner)
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
		readers = append(readers, "--owner", lsHold(t, client.RWMutex("orders").RLocker()).Owner())
	}
	unlock(readers[:4]...).want(t, 1, `^\{"broken":false,"lock":\{"name":"orders","kind":"rw",`, "lock not broken: it is held by .* and 1 more")
	unlock(readers...).want(t, 0, `^\{"broken":true,"lock":\{"name":"orders","kind":"rw",`, "")
	if held() {
		t.Error("it is still held")
	}
	s.Do(t, "SET", "orders", "x")
	unlock("--force", "--yes").want(t, 1, "", "orders is not a lock")
}

// A lock that is broken goes to who waits for it.
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
	eventually(t, "somebody waits", func() bool { return s.Int(t, "LLEN", "redisson_lock_queue:{orders}") == 1 })
	hold(t, "unlock", "orders", "--force", "--yes", "--url", s.URL()).want(t, 0, "The lock is broken", "")
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// A signal at the question leaves the lock alone.
func TestUnlockTerminated(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lease := lsHold(t, lsOpen(t, s).Mutex("orders"))
	p := startTerminal(t, 80, 24, nil, "unlock", "orders", "--force", "--url", s.URL())
	p.shows(t, `Break it\?`)
	p.signal(t, os.Interrupt)
	p.wait(t).want(t, 130, "*", "")
	if !lease.Valid() || s.Int(t, "EXISTS", "orders") != 1 {
		t.Error("it was broken")
	}
}

// If all readers that are looked at are dead, one of the others may live.
func TestUnlockDeadReaders(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	readers := []string{"HSET", "crowd", "mode", "read"}
	for i := range 1500 {
		readers = append(readers, fmt.Sprintf("285475da-9152-4c83-822a-67ee2f116a79:%d", i), "1")
	}
	s.Do(t, readers...)
	s.Do(t, "PEXPIRE", "crowd", "600000")
	hold(t, "ls", "--url", s.URL()).want(t, 0, `\ncrowd +more: holdfast show\n$`, "")
	hold(t, "show", "crowd", "--url", s.URL()).want(t, 0, `unknown: the readers that were checked have expired\n.*\d+ holders`, "")
	hold(t, "unlock", "crowd", "--force", "--yes", "--url", s.URL()).want(t, 1, "", "lock not broken: it may be held by owners that were not checked")
}
