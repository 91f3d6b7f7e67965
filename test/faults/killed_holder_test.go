package faults_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() { workers["renewing holder"] = renewingHolder }

// renewingHolder holds a mutex with a lease of 3 s until it is killed.
func renewingHolder() {
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), &holdfast.Options{WatchdogTimeout: 3 * time.Second})
	if err != nil {
		panic(err)
	}
	if _, err := c.Mutex(os.Getenv("TEST_NAME")).Lock(context.Background()); err != nil {
		panic(err)
	}
	fmt.Println("held")
	select {}
}

// A holder is killed while 20 clients wait. The lock stays unused for its lease and one
// second at most, and then passes from one to the next.
func TestKilledBeforeManyWaiters(t *testing.T) {
	t.Parallel()
	const waiters = 20
	s := redistest.Start(t)
	n := locktest.Name(t)
	p := redistest.Worker(t, "renewing holder", "TEST_URL="+s.URL(), "TEST_NAME="+n)
	<-p.Lines()
	got := make(chan struct{}, waiters)
	var wg sync.WaitGroup
	defer wg.Wait()
	for range waiters {
		c := locktest.Open(t, s.URL())
		wg.Go(func() {
			l := locktest.Lock(t, t.Context(), c.Mutex(n))
			got <- struct{}{}
			locktest.Release(t, l)
		})
	}
	locktest.Eventually(t, 30*time.Second, "all clients wait", func() bool { return s.Int(t, "ZCARD", "holdfast:queue:{"+n+"}") == waiters })
	killed := time.Now()
	p.Kill()
	<-got
	first := locktest.Took(killed)
	for range waiters - 1 {
		<-got
	}
	last := locktest.Took(killed)
	t.Logf("the first waiter got the lock %v after the holder was killed, the last one after %v", first, last)
	if first > 4*time.Second {
		t.Errorf("the lock stayed unused for %v", first)
	}
	if last > first+5*time.Second {
		t.Errorf("the last waiter got the lock %v after the first one", last-first)
	}
}
