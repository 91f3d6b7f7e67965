package locktest

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// SetRate sets the rate of l, or ends the test.
func SetRate(tb testing.TB, l *holdfast.RateLimiter, rate holdfast.Rate) {
	tb.Helper()
	if err := l.SetRate(context.Background(), rate); err != nil {
		tb.Fatal(err)
	}
}

// Reserve reserves n permits, or ends the test.
func Reserve(tb testing.TB, l *holdfast.RateLimiter, n int) *holdfast.Reservation {
	tb.Helper()
	r, err := l.ReserveN(context.Background(), n)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// WantAllow checks whether AllowN grants n permits now.
func WantAllow(tb testing.TB, l *holdfast.RateLimiter, n int, want bool) {
	tb.Helper()
	if ok, err := l.AllowN(context.Background(), n); ok != want || err != nil {
		tb.Errorf("AllowN(%d): %v, %v, want %v", n, ok, err, want)
	}
}
