package soak_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What is left at a server is found: permits, keys, channels.
func TestLeft(t *testing.T) {
	t.Parallel()
	g := oneServer(t)
	g.round = "s0:"
	s := g.nodes[0]
	for _, n := range permits {
		s.Do(t, "INCRBY", semaphoreName(g.round, n), string(rune('0'+n)))
	}
	s.Do(t, "SET", "redisson_lock_token:{s0:fenced0}", "7")
	s.Do(t, "ZADD", "holdfast:queue:{s0:mutex0}", "1", "d0:1")
	s.Do(t, "PEXPIRE", "holdfast:queue:{s0:mutex0}", "60000")
	if left := kept(t, g, true); len(left) > 0 {
		t.Errorf("not left behind: %q", left)
	}
	want := []string{"key holdfast:queue:{s0:mutex0}"}
	if left := kept(t, g, false); !slices.Equal(left, want) {
		t.Errorf("%q, want %q", left, want)
	}
	s.Do(t, "DEL", "holdfast:queue:{s0:mutex0}")
	s.Do(t, "HSET", "s0:mutex1", "c:1", "1")
	s.Do(t, "DECR", semaphoreName(g.round, 3))
	s.Do(t, "ZADD", "{"+semaphoreName(g.round, 8)+"}:timeout", "1", "0123456789abcdef")
	want = []string{"key s0:mutex1", "s0:semaphore3 has 2 of 3 permits, and 0 are taken", "s0:semaphore8 has 8 of 8 permits, and 1 are taken"}
	if left := kept(t, g, true); !slices.Equal(left, want) {
		t.Errorf("%q, want %q", left, want)
	}
}

// Records of several processes are read, without a last line that is torn. A line that is
// damaged elsewhere is an error.
func TestReadRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newRecorder(dir, "0.1").add(record{Event: evLeak, Text: "first"})
	newRecorder(dir, "1.1").add(record{Event: evLeak, Text: "second"})
	appendTo := func(text string) {
		f, err := os.OpenFile(filepath.Join(dir, "records-0.1.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(text)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	appendTo(`{"At":`)
	records, err := readRecords(dir)
	if err != nil || len(records) != 2 || records[0].Process != "0.1" || records[1].Text != "second" || records[1].At == 0 {
		t.Errorf("%+v, %v", records, err)
	}
	appendTo("\n")
	if _, err := readRecords(dir); err == nil {
		t.Error("a damaged line is not noticed")
	}
}
