package interop_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/interop"
)

var update = flag.Bool("update", false, "record anew what Redisson leaves in Redis")

// A script is a sequence of operations on an object. Each side runs it on its own server.
type script struct {
	name     string
	java     func(tb testing.TB, r *redisson, name string) object
	golang   func(c *holdfast.Client, name string) any                        // the same object in Go, if it is not a lock
	lockers  map[string]func(c *holdfast.Client, name string) holdfast.Locker // if it is a lock: by the object of the Java call; "" is the lock itself
	config   func(c *sides)                                                   // settings other than the default ones
	plain    bool                                                             // it is slow, so one name is enough
	era      bool                                                             // the early Redisson also has it
	deviates []*deviation                                                     // deviations that any step may have
	steps    []step
}

// A step is an operation with a form for each side.
type step struct {
	does string
	op
	until    func(s *stage) bool // reports the end of the step, if it is later than the answer
	deviates []*deviation
}

// A deviation is an intended difference. It explains the lines of one side that match its
// pattern.
type deviation struct {
	why                string
	redisson, holdfast *regexp.Regexp
}

func (d *deviation) explains(from, line string) bool {
	pattern := map[string]*regexp.Regexp{"redisson": d.redisson, "holdfast": d.holdfast}[from]
	return pattern != nil && pattern.MatchString(line)
}

// After each step Holdfast has stored the same data in Redis as Redisson, except for the named
// deviations. Both also match the golden files. The golden files of the early Redisson show
// where it differs from the current release.
func TestGolden(t *testing.T) {
	var files []string
	for _, s := range recordings {
		files = append(files, s.name)
		if s.era {
			files = append(files, "era-"+s.name)
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			var text, era bytes.Buffer
			used := make(map[*deviation]bool)
			for _, name := range s.names() {
				theirs, ours := s.record(t, newJavaSide(t, s, interop.Current, name)), s.record(t, newGoSide(t, s, name))
				fmt.Fprintf(&text, "\n== %s\n", name)
				for i, st := range s.steps {
					diff := compare("redisson", theirs[i], "holdfast", ours[i])
					why, wrong := explain(s, st, diff, used)
					for _, w := range wrong {
						t.Errorf("%s: %s: %s", name, st.does, w)
					}
					write(&text, st.does, why, diff)
				}
				if !s.era {
					continue
				}
				then := s.record(t, newJavaSide(t, s, interop.Era, name))
				fmt.Fprintf(&era, "\n== %s\n", name)
				for i, st := range s.steps {
					write(&era, st.does, nil, compare("current", theirs[i], "era", then[i]))
				}
			}
			for _, d := range s.deviates {
				if !used[d] {
					t.Errorf("no step deviates: %s", d.why)
				}
			}
			golden(t, s.name, text.String())
			if s.era {
				golden(t, "era-"+s.name, era.String())
			}
		})
	}
	found, err := filepath.Glob("testdata/*.golden")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if !slices.Contains(files, strings.TrimSuffix(filepath.Base(f), ".golden")) {
			t.Errorf("%s belongs to no script", f)
		}
	}
}

// names are a plain name and one with a hash tag.
func (s *script) names() []string {
	if s.plain {
		return []string{"job"}
	}
	return []string{"job", "a:{b}:c"}
}

// record runs all steps and returns the recorded data of each.
func (s *script) record(t *testing.T, by actor) (steps [][]string) {
	t.Helper()
	stage := by.stage()
	stage.rec.step(t, nil) // the commands of the connect
	for _, st := range s.steps {
		stage.before = stage.ends()
		answer := by.do(t, st.op)
		if st.until != nil {
			locktest.Eventually(t, 30*time.Second, st.does, func() bool { return st.until(stage) })
		}
		steps = append(steps, stage.rec.step(t, answer))
	}
	return steps
}

// A difference is a line and the side that has it, if only one has.
type difference struct{ from, line string }

// compare returns the lines of the first side, and then the lines that only the second has.
func compare(a string, as []string, b string, bs []string) (all []difference) {
	rest := slices.Clone(bs)
	for _, line := range as {
		if i := slices.Index(rest, line); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
			all = append(all, difference{"", line})
		} else {
			all = append(all, difference{a, line})
		}
	}
	for _, line := range rest {
		all = append(all, difference{b, line})
	}
	return all
}

// explain returns the reasons of the deviations, and the errors: differences without a
// deviation, and deviations of the step that explain no difference.
func explain(s *script, st step, diff []difference, used map[*deviation]bool) (why, wrong []string) {
	explained := make(map[int]bool)
	for _, d := range append(slices.Clone(st.deviates), s.deviates...) {
		found := false
		for i, x := range diff {
			if x.from != "" && !explained[i] && d.explains(x.from, x.line) {
				explained[i], found = true, true
			}
		}
		if found {
			used[d] = true
			why = append(why, d.why)
		} else if slices.Contains(st.deviates, d) {
			wrong = append(wrong, "does not deviate: "+d.why)
		}
	}
	for i, x := range diff {
		if x.from != "" && !explained[i] {
			wrong = append(wrong, "only "+x.from+": "+x.line)
		}
	}
	return why, wrong
}

// Every difference needs a deviation, and every deviation needs a difference.
func TestGoldenExplains(t *testing.T) {
	tells := deviates("it tells", "", "publish .*")
	for _, test := range []struct {
		theirs, ours []string
		deviates     []*deviation
		wrong        []string
	}{
		{[]string{"key a"}, []string{"key a"}, nil, nil},
		{[]string{"key a"}, []string{"key b"}, nil, []string{"only redisson: key a", "only holdfast: key b"}},
		{[]string{"key a"}, []string{"key a", "key a"}, nil, []string{"only holdfast: key a"}},
		{nil, []string{"publish a"}, []*deviation{tells}, nil},
		{[]string{"publish a"}, nil, []*deviation{tells}, []string{"does not deviate: it tells", "only redisson: publish a"}},
		{[]string{"publish a"}, []string{"publish a"}, []*deviation{tells}, []string{"does not deviate: it tells"}},
	} {
		diff := compare("redisson", test.theirs, "holdfast", test.ours)
		if _, wrong := explain(&script{}, step{deviates: test.deviates}, diff, make(map[*deviation]bool)); !slices.Equal(wrong, test.wrong) {
			t.Errorf("%q and %q: %q, want %q", test.theirs, test.ours, wrong, test.wrong)
		}
	}
}

func write(to *bytes.Buffer, does string, why []string, diff []difference) {
	fmt.Fprintf(to, "\n-- %s\n", does)
	for _, w := range why {
		fmt.Fprintf(to, "   because %s\n", w)
	}
	for _, d := range diff {
		fmt.Fprintf(to, "%-8s | %s\n", d.from, d.line)
	}
}

// golden compares a recording with its file, or writes the file.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	text = strings.TrimLeft(text, "\n")
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: run `make golden`", err)
	}
	want, got := strings.Split(string(data), "\n"), strings.Split(text, "\n")
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Errorf("%s, line %d, is\n\t%s\nwant\n\t%s\n`make golden` records it again", file, i+1, at(got, i), at(want, i))
			return
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "nothing"
}
