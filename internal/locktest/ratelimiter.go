package locktest

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
)

func SetRate(tb testing.TB, l *holdfast.RateLimiter, rate holdfast.Rate) {
	tb.Helper()
	if err := l.SetRate(context.Background(), rate); err != nil {
		tb.Fatal(err)
	}
}

func Reserve(tb testing.TB, l *holdfast.RateLimiter, n int) *holdfast.Reservation {
	tb.Helper()
	r, err := l.ReserveN(context.Background(), n)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// WantAllow checks whether n permits can be had now.
func WantAllow(tb testing.TB, l *holdfast.RateLimiter, n int, want bool) {
	tb.Helper()
	if ok, err := l.AllowN(context.Background(), n); ok != want || err != nil {
		tb.Errorf("AllowN(%d): %v, %v, want %v", n, ok, err, want)
	}
}
