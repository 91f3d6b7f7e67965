package redistest_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestRecorder(t *testing.T) {
	var buf bytes.Buffer
	rec := redistest.NewRecorder(&buf)
	start := redistest.Now()
	leave := rec.Enter("a lock\n", "me")
	if buf.Len() != 0 {
		t.Error("interval written before its end")
	}
	leave()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { rec.Enter("other", fmt.Sprint(i))() })
	}
	wg.Wait()
	ivs, err := redistest.ReadIntervals(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if len(ivs) != 9 {
		t.Fatalf("%d intervals, want 9", len(ivs))
	}
	iv := ivs[0]
	if iv.Name != "a lock\n" || iv.Owner != "me" || iv.Enter < start || iv.Leave < iv.Enter || iv.Leave > redistest.Now() {
		t.Errorf("first interval is %+v, started at %d", iv, start)
	}
	if _, err := redistest.ReadIntervals(strings.NewReader("{}\n\nxyz\n")); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("error %v, want one about line 3", err)
	}
}

func TestCheckExclusive(t *testing.T) {
	type ivs = []redistest.Interval
	iv := func(name, owner string, enter, leave int64) redistest.Interval {
		return redistest.Interval{Name: name, Owner: owner, Enter: enter, Leave: leave}
	}
	shared := func(name, owner string, enter, leave int64) redistest.Interval {
		return redistest.Interval{Name: name, Owner: owner, Enter: enter, Leave: leave, Shared: true}
	}
	tests := []struct {
		name string
		ivs  ivs
		want []string // parts of the error, none for no error
	}{
		{"none", nil, nil},
		{"touching", ivs{iv("a", "y", 5, 9), iv("a", "x", 1, 5)}, nil},
		{"other name", ivs{iv("a", "x", 1, 5), iv("b", "y", 2, 4)}, nil},
		{"overlap", ivs{iv("a", "y", 4, 9), iv("a", "x", 1, 5)}, []string{`"a"`, `"x" from 1 to 5`, `"y" from 4 to 9`, "1ns"}},
		{"contained", ivs{iv("a", "x", 1, 90), iv("a", "y", 2, 3)}, []string{`"x"`, `"y"`}},
		{"behind a short one", ivs{iv("a", "x", 1, 3), iv("a", "y", 3, 50), iv("a", "z", 49, 60)}, []string{`"y"`, `"z"`}},
		{"two names", ivs{iv("a", "x", 1, 5), iv("a", "y", 2, 6), iv("b", "v", 1, 5), iv("b", "w", 2, 6)}, []string{`"x"`, `"y"`, `"v"`, `"w"`}},
		{"shared", ivs{shared("a", "x", 1, 5), shared("a", "y", 2, 6), shared("a", "z", 3, 4), iv("a", "w", 6, 9), shared("a", "v", 9, 10)}, nil},
		{"shared first", ivs{shared("a", "x", 1, 9), shared("a", "y", 2, 3), iv("a", "z", 8, 10)}, []string{`"x"`, `"z"`}},
		{"shared second", ivs{iv("a", "x", 1, 9), shared("a", "y", 8, 10)}, []string{`"x"`, `"y"`}},
		{"shared in between", ivs{iv("a", "x", 1, 3), shared("a", "y", 3, 9), shared("a", "z", 4, 5), iv("a", "w", 6, 7)}, []string{`"y"`, `"w"`}},
	}
	for _, tt := range tests {
		err := redistest.CheckExclusive(tt.ivs)
		if (err != nil) != (len(tt.want) > 0) {
			t.Errorf("%s: error %v", tt.name, err)
			continue
		}
		for _, part := range tt.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %q lacks %s", tt.name, err, part)
			}
		}
	}
}
