package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Locked reports whether m is locked, or ends the test.
func Locked(tb testing.TB, m MutexLike) bool {
	tb.Helper()
	is, err := m.IsLocked(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return is
}

// HoldCount returns how often the owner in ctx holds m. It ignores whether ctx is
// done.
func HoldCount(tb testing.TB, ctx context.Context, m MutexLike) int {
	tb.Helper()
	n, err := m.HoldCount(context.WithoutCancel(ctx))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// WantRefused checks that another owner cannot lock m.
func WantRefused(tb testing.TB, m holdfast.Locker) {
	tb.Helper()
	l, err := m.TryLock(context.Background())
	if !errors.Is(err, holdfast.ErrNotAcquired) {
		tb.Errorf("TryLock of a held lock: error %v, want ErrNotAcquired", err)
	}
	if err == nil {
		Release(tb, l)
	}
}

// WantFree checks that m can be locked.
func WantFree(tb testing.TB, m holdfast.Locker) {
	tb.Helper()
	l, err := m.TryLock(context.Background())
	if err != nil {
		tb.Errorf("TryLock of a free lock: %v", err)
		return
	}
	Release(tb, l)
}

// WantLost checks that Release reports that l was lost, and why.
func WantLost(tb testing.TB, l *holdfast.Lease, why holdfast.LossReason) {
	tb.Helper()
	err := l.Release(context.Background())
	var lost *holdfast.LostError
	if !errors.Is(err, holdfast.ErrLost) || !errors.As(err, &lost) {
		tb.Errorf("Release of a lost lease: error %v, want ErrLost", err)
	} else if lost.Reason != why {
		tb.Errorf("lease lost because %q, want %q", lost.Reason, why)
	}
	if l.Valid() {
		tb.Error("a lost lease is valid")
	}
}

// WantTTL checks that the server keeps a key for d, or a little less.
func WantTTL(tb testing.TB, s *redistest.Server, key string, d time.Duration) {
	tb.Helper()
	ttl := time.Duration(s.Int(tb, "PTTL", key)) * time.Millisecond
	if ttl > d || ttl < d-5*time.Second {
		tb.Errorf("TTL is %v, want about %v", ttl, d)
	}
}

// WantToken checks the token of the last grant of m.
func WantToken(tb testing.TB, m *holdfast.Mutex, want int64) {
	tb.Helper()
	if got, err := m.State(context.Background()); got.Token != want || err != nil {
		tb.Errorf("Token is %d, %v, want %d", got.Token, err, want)
	}
}
