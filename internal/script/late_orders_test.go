package script_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// The same as TestLateCopyOfRefusedRequest, for what is refused without a note.
func TestLateCopyOfOtherRefusals(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	giveLimiter := func(ctx context.Context, d driver.Driver, name string) error {
		_, err := d.Do(ctx, script.NewRateLimiter(name, "c", 1).Release("a:1:7"))
		return err
	}
	for _, r := range []struct {
		title string
		given []string
		do    op
		then  []string
		state []string
	}{
		{"delete", nil, deleted(one, false), []string{"SET N 5"}, []string{"N string 5"}},
		{"rename", []string{"SET N 5", "SET to 6"}, renamed(one, false), []string{"DEL to"}, []string{"N string 5"}},
		{"copy", []string{"SET N 5", "SET to 6"}, copied(one, false), []string{"DEL to"}, []string{"N string 5"}},
		{"expire", nil, expired(one, 60), []string{"SET N 5"}, []string{"N string 5"}},
		{"persist", []string{"SET N 5"}, persisted(one), []string{"SET N 5 PX 60000"}, []string{"N string 5, TTL 60s"}},
		{"give back to a limiter", nil, giveLimiter, []string{"HSET N rate 1 interval 1000 type 0"}, []string{"N hash interval=1000 rate=1 type=0"}},
	} {
		t.Run(r.title, func(t *testing.T) {
			l := newLab(t, s, d, "N")
			l.run(r.given...)
			first := l.call(d, r.do)
			l.run(r.then...)
			if got := l.call(d, r.do); got != first {
				t.Errorf("the late copy: reply %s, the first was %s", got, first)
			}
			l.run("DEL mark:a:1", "DEL mark:c:0")
			l.has(r.state...)
		})
	}
}
