package script_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A stillRate is a rate limiter in still time: ten permits in a second.
type stillRate struct{ still }

// take asks for permits, and returns in how many ms they may be used, or less
// than zero if they were not given: -1 and the ms after which asking may help.
func (s *stillRate) take(owner string, n int, longest time.Duration) int64 {
	s.Helper()
	v, err := script.Acquire(s.Context(), s, script.NewRateLimiter(s.name, "c", n), script.Claim{Owner: owner, Longest: longest})
	switch {
	case err != nil || v.Err != nil:
		s.Fatal(err, v.Err)
	case !v.Granted():
		if !v.Final {
			s.Errorf("%s was not told that it is in vain", owner)
		}
		return -1 - v.TTL.Milliseconds()
	}
	return v.After.Milliseconds()
}

// order runs a call of a limiter that is answered by a number.
func (s *stillRate) order(c driver.Call) int64 {
	s.Helper()
	r, err := s.Do(s.Context(), c)
	if err != nil {
		s.Fatal(err)
	}
	return r.Int
}

// of is the limiter for those who want that many.
func (s *stillRate) of(n int) *script.RateLimiter { return script.NewRateLimiter(s.name, "c", n) }

func (s *stillRate) has(free int) {
	s.Helper()
	if _, n, err := s.of(0).Inspect(s.Context(), s); n != free || err != nil {
		s.Errorf("%d are free at %d ms, want %d; %v", n, s.at, free, err)
	}
}

// What a rate limiter promises, to the millisecond.
func TestRateInStillTime(t *testing.T) {
	server := redistest.Start(t)
	d := connect(t, server.URL())
	const now, ever = time.Duration(0), time.Duration(-1)
	for promise, test := range map[string]func(s *stillRate){
		"no span of an interval sees more": func(s *stillRate) {
			s.wants(0, s.take("a:1", 10, now))
			s.at = 1000 // which may be less than a second after: times are cut
			s.wants(-2, s.take("a:2", 1, now))
			s.has(0)
			s.at = 1001
			s.has(10)
			s.wants(0, s.take("a:3", 10, now))
		},
		"also if it is taken ahead": func(s *stillRate) {
			s.wants(0, s.take("a:1", 10, now))
			s.at = 400
			s.wants(601, s.take("a:2", 4, ever))
			s.wants(601, s.take("a:3", 6, ever))
			s.wants(601+1001, s.take("a:4", 1, ever)) // after those
			s.at = 1001
			s.has(0)
			s.at = 2002
			s.has(9)
		},
		"nothing is taken further ahead than wanted": func(s *stillRate) {
			s.wants(0, s.take("a:1", 10, now))
			s.at = 400
			s.wants(-1-601, s.take("a:2", 10, 600*time.Millisecond))
			s.wants(601, s.take("a:3", 10, 601*time.Millisecond)) // nobody is before it
		},
		"taken once, if it is sent again": func(s *stillRate) {
			for range 2 {
				s.wants(0, s.take("a:1", 6, now))
				s.has(4)
			}
			for range 2 {
				s.wants(1001, s.take("a:2", 6, ever))
			}
			s.at = 1001
			s.has(4)
		},
		"cancelled once, and not what may be used": func(s *stillRate) {
			s.wants(0, s.take("a:1", 7, now))
			s.wants(1001, s.take("a:2", 4, ever))
			s.wants(0, s.order(s.of(7).Cancel("a:1")))
			for _, done := range []int64{1, 0} {
				s.wants(done, s.order(s.of(4).Cancel("a:2")))
				s.has(3)
			}
			s.wants(1, s.order(s.of(7).Free("a:1"))) // nobody was told of it
			s.has(10)
		},
		"given back once": func(s *stillRate) {
			s.wants(0, s.take("a:1", 5, now))
			s.wants(0, s.take("a:2", 5, now))
			s.at = 100
			for range 2 { // sent again
				s.wants(1, s.order(s.of(5).Release("e:1:1")))
				s.has(5)
			}
			s.at = 200
			s.wants(0, s.take("a:3", 5, now))
			s.at = 1001 // now the other five are over, and not ten
			s.has(5)
		},
		"each client has its own": func(s *stillRate) {
			s.rate(script.Rate{Permits: 10, Interval: time.Second, PerClient: true}, "e:1:2")
			s.wants(0, s.take("a:1", 10, now))
			if _, n, err := script.NewRateLimiter(s.name, "d", 0).Inspect(s.Context(), s); n != 10 || err != nil {
				s.Errorf("%d are free for another client; %v", n, err)
			}
		},
	} {
		t.Run(promise, func(t *testing.T) {
			s := &stillRate{still{T: t, Driver: d, name: promise}}
			s.rate(script.Rate{Permits: 10, Interval: time.Second}, "e:1:0")
			test(s)
		})
	}
}

func (s *stillRate) rate(r script.Rate, request string) {
	s.Helper()
	s.wants(1, s.order(s.of(0).Set(request, r, script.Always)))
}
