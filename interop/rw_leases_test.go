package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

func init() { workers["reader"] = readWorker }

// readWorker holds a read lock until it is killed, and prints its owner.
func readWorker() {
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), &holdfast.Options{WatchdogTimeout: watchdogTime})
	if err != nil {
		panic(err)
	}
	l, err := c.RWMutex(os.Getenv("TEST_NAME")).RLock(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Owner())
	bufio.NewScanner(os.Stdin).Scan()
}

// Readers of both sides are killed. The other readers continue, and each side renews its own
// readers. Dead readers exclude writers only until their leases are over. However, while the
// Redisson of 2020 reads, it also renews dead readers.
func TestRWKilledReaders(t *testing.T) {
	eachRWLock(t, func(t *testing.T, b *rwLock) {
		doomed := ownPeer(t, b.release)
		dead := &javaParty{newShortLeaseFixture(t, doomed, b.server).java, object{}, "reader"}
		dead.lock = kindOf("read").java(t, dead.client, b.name)
		dead.Lock(t, 0)
		w := redistest.Worker(t, "reader", "TEST_URL="+b.server.URL(), "TEST_NAME="+b.name)
		owners := []string{dead.Owner(t), <-w.Lines()}
		alive := []party{b.either(t, 0, "read"), b.either(t, 1, "read")}
		for _, p := range alive {
			p.Lock(t, 0)
		}
		doomed.Kill()
		w.Kill()

		var holds []string
		for _, owner := range owners {
			holds = append(holds, b.holdKey(owner, 1))
		}
		for _, p := range alive {
			holds = append(holds, b.holdKey(p.Owner(t), 1))
		}
		awaitLeases(t, b.server, holds...)
		for i, owner := range owners {
			// The release of 2020 renews all readers that are in the hash.
			if left := b.hold(t, owner, 1); left > 0 && b.release == interop.Current {
				t.Errorf("dead reader %d has another %v", i, left)
			}
		}
		for i, p := range alive {
			if b.hold(t, p.Owner(t), 1) < 0 {
				t.Errorf("living reader %d is gone", i)
			}
		}
		if !alive[1].(*goParty).leases[0].Valid() {
			t.Error("the goroutine has lost its lease")
		}
		b.wantNoWriter(t)
		alive[0].Unlock(t)
		b.wantNoWriter(t)
		left := alive[1].Unlock(t)
		writer := b.either(t, 0, "write")
		wantEntered(t, 1, enters(t, writer), left, watchdogTime+slack) // at once, unless dead readers are left
		writer.Unlock(t)
		wantNothingLeft(t, b.server, b.name)
	})
}

// Redisson renews a read lock by setting the TTL of the hash, which may shorten it for another
// reader. The release of 2020 also sets the times of all readers. When Redisson stops renewing,
// the lock would expire while a Go reader still relies on it, unless Go restores the TTL. Go
// must do this more often than Redisson's watchdog time.
func TestRWRenewalCutsLease(t *testing.T) {
	const lease = 15 * time.Second
	cases := []struct {
		name    string
		options []holdfast.LockOption // of the reader
		end     func(t *testing.T, b *rwLock, java party)
	}{
		{
			"fixed lease beside one that dies",
			[]holdfast.LockOption{holdfast.LeaseTime(lease)},
			func(t *testing.T, b *rwLock, _ party) { _ = b.java.Close() },
		},
		{
			"fixed lease beside one that leaves",
			[]holdfast.LockOption{holdfast.LeaseTime(lease)},
			func(t *testing.T, _ *rwLock, java party) { java.Unlock(t) },
		},
		{
			"renewed lease beside one that dies", nil,
			func(t *testing.T, b *rwLock, _ party) { _ = b.java.Close() },
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			eachRWLock(t, func(t *testing.T, b *rwLock) {
				java := b.either(t, 0, "read")
				java.Lock(t, 0)
				b.golang = open(t, b.server.URL(), holdfast.Options{WatchdogTimeout: lease, RenewEvery: time.Second})
				l, err := b.golang.RWMutex(b.name).RLock(t.Context(), c.options...)
				if err != nil {
					t.Fatal(err)
				}
				locktest.Eventually(t, 2*watchdogTime, "Redisson has renewed", func() bool {
					return b.server.Int(t, "PTTL", b.name) <= watchdogTime.Milliseconds()
				})
				c.end(t, b, java)
				t.Logf("the hash has another %d ms, the reader's hold %v", b.server.Int(t, "PTTL", b.name), b.hold(t, l.Owner(), 1))
				other := open(t, b.server.URL()).RWMutex(b.name)
				begin := time.Now()
				redistest.Poll(watchdogTime+2*time.Second, func() bool { // otherwise the TTL was not shortened
					w, err := other.TryLock(t.Context())
					if err == nil && l.Valid() && w.Valid() {
						t.Errorf("a writer entered after %v beside a reader whose lease is valid for another %v", time.Since(begin), time.Until(l.Deadline()))
					}
					return err == nil || !l.Valid()
				})
			})
		})
	}
}

// Each side breaks read and write locks. A waiter enters, and a goroutine that held the lock
// notices the loss.
func TestRWForce(t *testing.T) {
	eachRWLock(t, func(t *testing.T, b *rwLock) {
		for i := range 2 { // the side that breaks the lock, and the side that waits
			force := func(what string) {
				t.Helper()
				freed := false
				if i == 0 {
					freed = kindOf(what).java(t, b.java, b.name).do(t, "", "forceUnlock").Bool()
				} else {
					lock := kindOf(what).golang(b.golang, b.name).(interface {
						ForceUnlock(context.Context) (bool, error)
					})
					freed, _ = lock.ForceUnlock(t.Context())
				}
				if !freed {
					t.Errorf("no %s lock was broken", what)
				}
			}
			readers := []party{b.either(t, 0, "read"), b.either(t, 1, "read")}
			for _, r := range readers {
				r.Lock(t, 0)
			}
			writer := b.either(t, i+1, "write")
			entered := begin(t, writer)
			left := redistest.Now()
			force("read")
			wantEntered(t, 1, entered, left, slack)
			b.wantFields(t, "mode", "write", writer.Owner(t)+":write", "1")
			lease := readers[1].(*goParty).leases[0]
			select {
			case <-lease.Context().Done():
			case <-time.After(2 * watchdogTime):
				t.Error("a reader did not notice the loss")
			}
			if lease.Release(t.Context()) == nil {
				t.Error("a reader released a broken lock without an error")
			}

			reader := b.either(t, i, "read")
			entered = begin(t, reader)
			left = redistest.Now()
			force("write")
			wantEntered(t, 1, entered, left, slack)
			b.wantFields(t, "mode", "read", reader.Owner(t), "1")
			reader.Unlock(t)
		}
		wantNothingLeft(t, b.server, b.name)
	})
}

// A waiting writer with priority in Go excludes new Go readers, but not threads: Redisson
// does not know this priority.
func TestRWWriterFirst(t *testing.T) {
	eachRWLock(t, func(t *testing.T, b *rwLock) {
		reader := b.either(t, 0, "read")
		reader.Lock(t, 0)
		writer := &goParty{client: b.golang, lock: b.golang.RWMutex(b.name, holdfast.WriterFirst())}
		entered := begin(t, writer)
		locktest.Eventually(t, 10*time.Second, "the writer has announced that it waits", func() bool {
			return b.server.Int(t, "PTTL", "holdfast:writers:{"+b.name+"}") > 2500
		})
		if b.either(t, 1, "read").TryLock(t, 0, 0) {
			t.Error("a goroutine reads before a waiting writer with priority")
		}
		late := b.either(t, 0, "read")
		if !late.TryLock(t, 0, 0) {
			t.Error("a thread was not granted the lock")
		}
		reader.Unlock(t)
		wantEntered(t, 1, entered, late.Unlock(t), slack)
		writer.Unlock(t)
		wantNothingLeft(t, b.server, b.name)
	})
}
