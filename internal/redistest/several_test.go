package redistest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A server that stands for several answers like one.
func TestSeveral(t *testing.T) {
	for topology, scheme := range map[string]string{
		"replicated": "redis://", "sentinel": "redis-sentinel://", "cluster?sharded=off": "redis-cluster://",
	} {
		t.Run(topology, func(t *testing.T) {
			t.Setenv("HOLDFAST_TEST_TOPOLOGY", topology)
			s := redistest.Fresh(t, "--notify-keyspace-events", "Kgx")
			if !strings.HasPrefix(s.URL(), scheme) || strings.HasPrefix(topology, "cluster") != strings.Contains(s.URL(), "sharded=off") {
				t.Errorf("URL %s", s.URL())
			}
			if got := s.Strings(t, "CONFIG", "GET", "notify-keyspace-events")[1]; got != "gxK" {
				t.Errorf("the setting is %q", got)
			}
			keys := []string{"a", "b", "c", "d"} // in all thirds of the slots
			for _, k := range keys {
				s.Do(t, "SET", k, k)
			}
			if got := s.Keys(t); !slices.Equal(got, keys) {
				t.Errorf("keys %q", got)
			}
			for want, cmd := range map[int64][]string{
				4: {"DBSIZE"},
				3: {"EXISTS", "a", "b", "c", "x"},
				2: {"EVAL", "return redis.call('exists', KEYS[1]) + 1", "1", "d"},
			} {
				if got := s.Int(t, cmd...); got != want {
					t.Errorf("%q: %d, want %d", cmd, got, want)
				}
			}
			if got := s.Channels(t); len(got) > 0 {
				t.Errorf("channels %q", got)
			}
			if got := s.Do(t, "PUBSUB", "NUMSUB", "x"); !slices.Equal(got.([]any), []any{"x", int64(0)}) {
				t.Errorf("subscribers %v", got)
			}
			s.Do(t, "FLUSHALL")
			if got := s.Keys(t); len(got) > 0 {
				t.Errorf("keys %q", got)
			}
		})
	}
}

func TestTestsOfOneServerAreSkippedElsewhere(t *testing.T) {
	t.Setenv("HOLDFAST_TEST_TOPOLOGY", "cluster")
	t.Run("one", func(t *testing.T) {
		t.Cleanup(func() {
			if !t.Skipped() {
				t.Error("not skipped")
			}
		})
		redistest.Start(t)
	})
	if s := redistest.One(t); s.Do(t, "PING") != "PONG" {
		t.Error("no answer")
	}
}

// What lasts until the end of a test binary is gone then, also when it is
// killed.
func TestDeploymentEnds(t *testing.T) {
	dir := t.TempDir()
	p := redistest.Worker(t, "deployment", "HOLDFAST_TEST_TOPOLOGY=sentinel", "TMPDIR="+dir)
	await(t, p.Lines(), "the deployment")
	files := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if len(files()) == 0 {
		t.Fatal("there are no files")
	}
	p.Kill()
	eventually(t, "no files are left", func() bool { return len(files()) == 0 })
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}
