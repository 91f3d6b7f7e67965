package interop_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/interop"
)

// A guard that checks the tokens of both sides refuses late writes of each side.
func TestFencingOnBothSides(t *testing.T) {
	ctx := t.Context()
	r := newFixture(t, interop.Current)
	n := name(t)
	key, err := fence.Key(n)
	if err != nil {
		t.Fatal(err)
	}
	write := fence.NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`)
	java, golang := r.java.get(t, "getFencedLock", n), r.golang.FencedMutex(n)
	p := peer(t, interop.Current)
	good(t, p.Do(interop.Call{On: "java.lang.Class", Method: "forName", Args: []any{"org.redisson.client.codec.StringCodec"}, As: "type of text"}))
	good(t, p.Do(interop.Call{On: "type of text", Method: "newInstance", As: "codec of text"}))
	script := r.java.get(t, "getScript", map[string]string{"ref": "codec of text"})

	javaWrites := func(token int64) error {
		return script.Do("", "eval", "READ_WRITE", write.Source(), "STRING", []any{key, "balance:{" + n + "}"}, []any{token, "Java"}).Err()
	}
	goWrites := func(token int64) error {
		_, err := write.Run(ctx, r.golang.Driver(), n, token, []string{"balance:{" + n + "}"}, []string{"Go"})
		return err
	}
	var tokens []int64 // Java, Go, Java
	for i := range 3 {
		if i == 1 {
			lease, err := golang.Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			tokens = append(tokens, lease.Token())
			if err := lease.Release(ctx); err != nil {
				t.Fatal(err)
			}
			continue
		}
		tokens = append(tokens, java.do(t, n, "lockAndGetToken").Int())
		java.do(t, n, "unlock")
	}
	if tokens[0] >= tokens[1] || tokens[1] >= tokens[2] {
		t.Errorf("tokens do not rise: %v", tokens)
	}
	if err := javaWrites(tokens[0]); err != nil {
		t.Error(err)
	}
	if err := goWrites(tokens[1]); err != nil {
		t.Error(err)
	}
	if err := javaWrites(tokens[0]); err == nil || !strings.Contains(err.Error(), "STALE") {
		t.Errorf("a late thread: %v", err)
	}
	if err := javaWrites(tokens[2]); err != nil {
		t.Error(err)
	}
	if err := goWrites(tokens[1]); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a late goroutine: %v", err)
	}
	if got := r.server.Do(t, "GET", "balance:{"+n+"}"); got != "Java" {
		t.Error(got)
	}
}
