package inspect_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Rate limiters are listed with their use. Looking at them changes nothing.
func TestLimiters(t *testing.T) {
	s := redistest.Fresh(t)
	c, i := open(t, s.URL())
	ctx := t.Context()
	set := func(name string, r holdfast.Rate) *holdfast.RateLimiter {
		l := c.RateLimiter(name)
		must(l.TrySetRate(ctx, r))(t)
		return l
	}
	set("unused", holdfast.Rate{Permits: 3, Per: time.Second})
	must(set("used", holdfast.Rate{Permits: 10, Per: time.Hour, KeepAlive: 2 * time.Hour}).AllowN(ctx, 4))(t)
	must(set("own", holdfast.Rate{Permits: 5, Per: time.Minute, PerClient: true}).Allow(ctx))(t)
	over := set("over", holdfast.Rate{Permits: 5, Per: 10 * time.Millisecond})
	must(over.AllowN(ctx, 5))(t)
	locktest.Eventually(t, 20*time.Second, "the interval is over", func() bool { return must(i.Limiter(ctx, "over"))(t).Used == 0 })
	ahead := set("ahead", holdfast.Rate{Permits: 2, Per: time.Hour})
	for range 3 {
		must(ahead.Reserve(ctx))(t)
	}
	many := set("many", holdfast.Rate{Permits: 5000, Per: time.Hour})
	for range 1100 {
		must(many.Allow(ctx))(t)
	}
	must(c.Mutex("lock").Lock(ctx))(t)
	s.Do(t, "HSET", "{data}", "rate", "x", "interval", "1", "type", "0")
	s.Do(t, "HSET", "few", "rate", "1", "interval", "1")
	want := map[string]inspect.Limiter{
		"unused": {Permits: 3, Per: time.Second},
		"used":   {Permits: 10, Per: time.Hour, KeepAlive: 2 * time.Hour, Used: 4},
		"own":    {Permits: 5, Per: time.Minute, PerClient: true, Used: -1},
		"over":   {Permits: 5, Per: 10 * time.Millisecond},
		"ahead":  {Permits: 2, Per: time.Hour, Used: 3},
		"many":   {Permits: 5000, Per: time.Hour, Used: 1100},
	}
	keys := s.Keys(t)
	got := make(map[string]inspect.Limiter)
	for l, err := range i.Limiters(ctx, inspect.Query{}) {
		done(t, err)
		name := l.Name
		if one := must(i.Limiter(ctx, name))(t); one != l {
			t.Errorf("alone %+v, in the list %+v", one, l)
		}
		l.Name = ""
		got[name] = l
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if after := s.Keys(t); !slices.Equal(sorted(keys), sorted(after)) {
		t.Errorf("the keys were %v, and are %v", keys, after)
	}
	if entries := s.Int(t, "ZCARD", "{over}:permits"); entries != 1 {
		t.Errorf("the log has %d entries: looking has changed it", entries)
	}
	for _, name := range []string{"lock", "{data}", "few", "none"} {
		if l, err := i.Limiter(ctx, name); !errors.Is(err, inspect.ErrNotLimiter) {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
	n := 0
	var last error
	for _, err := range i.Limiters(ctx, inspect.Query{Match: "o*", Limit: 1}) {
		n, last = n+1, err
	}
	if n != 2 || !errors.Is(last, inspect.ErrMore) {
		t.Errorf("%d, %v", n, last)
	}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }
