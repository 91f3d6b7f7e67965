package holdfast_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Marks do not grow with the number of objects: a request that was answered
// needs none when the next one comes.
func TestMarksAreReclaimed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL())
	for i := range 100 {
		name := fmt.Sprint("object:", i)
		if _, err := c.Latch(name).TrySet(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Latch(name).CountDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		sem := c.Semaphore("semaphore:" + name)
		if _, err := sem.TrySet(t.Context(), 1, 0); err != nil {
			t.Fatal(err)
		}
		if err := sem.Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := sem.Release(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	marks := 0
	for _, key := range s.Keys(t) {
		if strings.HasPrefix(key, "holdfast:once:") {
			marks++
		}
	}
	if marks > 1 {
		t.Errorf("%d marks of one goroutine are left", marks)
	}
}

// The mark of a request that was sent twice stays: a copy may come yet.
func TestMarkOfDoubtStays(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := open(t, p.URL())
	count := func(name string) {
		t.Helper()
		s.Do(t, "SET", name, "5")
		if left, err := c.Latch(name).CountDown(t.Context()); left != 4 || err != nil {
			t.Fatal(left, err)
		}
	}
	count("first") // the script is known from now on
	dropped := p.DropReply(1, func(cmd []string) bool { return cmd[0] == "EVALSHA" })
	count("second")
	<-dropped
	count("third")
	count("fourth")
	var marks []string
	for _, key := range s.Keys(t) {
		if strings.HasPrefix(key, "holdfast:once:") {
			marks = append(marks, key[:strings.Index(key, "}")+1])
		}
	}
	if got := fmt.Sprint(marks); !strings.Contains(got, "{second}") || !strings.Contains(got, "{fourth}") || len(marks) != 2 {
		t.Errorf("marks %v, want those of the second, which was sent twice, and of the fourth, which is the last", marks)
	}
}

// The same for a grant whose reply was lost.
func TestMarkOfDoubtfulGrantStays(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := open(t, p.URL())
	take := func(name string) {
		t.Helper()
		s.Do(t, "SET", name, "5")
		if err := c.Semaphore(name).Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if got := s.Int(t, "GET", name); got != 4 {
			t.Errorf("%d permits of %s are free", got, name)
		}
	}
	take("first")
	dropped := p.DropReply(1, func(cmd []string) bool { return cmd[0] == "EVALSHA" })
	take("second")
	<-dropped
	take("third")
	take("fourth")
	if keys := fmt.Sprint(s.Keys(t)); !strings.Contains(keys, "once:{second}") || strings.Contains(keys, "once:{third}") {
		t.Errorf("keys %v, want the mark of the second, which was sent twice, and not that of the third", keys)
	}
}
