package bench_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// takeOnce is a bare EVALSHA, with the shortest script that still reads a rate,
// takes a permit, and logs it.
const takeOnce = `local rate = redis.call('hget', KEYS[1], 'rate')
	local free = tonumber(redis.call('get', KEYS[2]) or rate)
	if free < 1 then return 0 end
	redis.call('set', KEYS[2], free - 1); redis.call('zadd', KEYS[3], ARGV[1], ARGV[2]); return 1`

// takeFloor returns a function that calls it.
func takeFloor(b *testing.B, s *redistest.Server) func(i int) {
	f := newFloor(b, s)
	sha := s.Do(b, "SCRIPT", "LOAD", takeOnce).(string)
	s.Do(b, "HSET", "floor", "rate", "2000000000")
	return func(i int) {
		call := f.client.B().Evalsha().Sha1(sha).Numkeys(3).Key("floor", "{floor}:value", "{floor}:permits").
			Arg(strconv.Itoa(i), fmt.Sprintf("%016d", i)).Build()
		if err := f.client.Do(context.Background(), call).Error(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLimiter takes permits that are free, and asks for some that are not.
func BenchmarkLimiter(b *testing.B) {
	s := redistest.Start(b)
	c := locktest.Open(b, s.URL())
	floor := takeFloor(b, s)
	// Permits come back all the time in the first, and never in the others.
	moving, still, none := c.RateLimiter("bench:moving"), c.RateLimiter("bench:still"), c.RateLimiter("bench:none")
	locktest.SetRate(b, moving, holdfast.Rate{Permits: 1 << 30, Per: 20 * time.Millisecond})
	locktest.SetRate(b, still, holdfast.Rate{Permits: 1 << 30, Per: time.Hour})
	locktest.SetRate(b, none, holdfast.Rate{Permits: 1, Per: time.Hour})
	locktest.WantAllow(b, none, 1, true)
	for _, test := range []struct {
		name       string
		call, tidy func(int)
	}{
		{"Allow", func(int) { locktest.WantAllow(b, moving, 1, true) }, nothing},
		{"Allow, nothing over", func(int) { locktest.WantAllow(b, still, 1, true) }, nothing},
		// A change makes the client ask the server again.
		{"Allow, refused by the server", func(int) { locktest.WantAllow(b, none, 1, false) }, func(int) {
			if _, err := none.UpdateRate(context.Background(), holdfast.Rate{Permits: 1, Per: time.Hour}); err != nil {
				b.Fatal(err)
			}
		}},
		{"WaitN", func(int) {
			if err := moving.WaitN(context.Background(), 3); err != nil {
				b.Fatal(err)
			}
		}, nothing},
	} {
		b.Run(test.name, func(b *testing.B) { turns(b, test.call, floor, test.tidy) })
	}
}

// BenchmarkReserve reserves permits behind earlier reservations, which the script
// has to count.
func BenchmarkReserve(b *testing.B) {
	s := redistest.Start(b)
	c := locktest.Open(b, s.URL())
	floor := takeFloor(b, s)
	for _, others := range []int{10, 100, 900} {
		b.Run(fmt.Sprint(others, " before"), func(b *testing.B) {
			l := c.RateLimiter(fmt.Sprint("bench:", others))
			locktest.SetRate(b, l, holdfast.Rate{Permits: 1, Per: time.Hour})
			for range others {
				locktest.Reserve(b, l, 1)
			}
			var r *holdfast.Reservation
			turns(b, func(int) { r = locktest.Reserve(b, l, 1) }, floor, func(int) {
				if err := r.Cancel(context.Background()); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
