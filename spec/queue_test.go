package spec

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// A scene is one configuration of Queue.tla: four owners that want one permit each, of one,
// if nothing else is said.
type scene struct {
	owners      int      // 0: four
	big         int      // how many of them want two permits
	permits     int      // 0: one, as of a mutex
	examines    int      // entries that a pass examines; 0: all
	look        int      // the bound of Served
	silent      bool     // owners that wait do not look by themselves
	plain       bool     // releases may grant to none
	once, twice []string // faults
	properties  string   // that hold; "": all
}

const all = "Exclusion Kept Nothing Served"

// scenes are the configurations in which the rules keep all properties. A lease takes 3, a
// grant 2, the first looks every 2, the others every 4. A request that was given up arrives
// within 1 after the server answers again.
var scenes = map[string]scene{
	// By messages alone, nothing is ever unused.
	"messages": {plain: true, silent: true},
	"quit":     {once: []string{"quit"}, silent: true},
	"bounds":   {big: 2, examines: 1, silent: true},

	// A grant to a client that dies costs its time, also if permits are wanted.
	"crash":   {owners: 3, once: []string{"crash"}, look: 2},
	"permits": {big: 1, permits: 2, once: []string{"crash"}, look: 2},

	// What no message repairs, the looks of the others do.
	"frozen":  {twice: []string{"freeze"}, look: 5},
	"lost":    {owners: 3, twice: []string{"loss"}, look: 4},
	"flushed": {owners: 3, once: []string{"flush"}, look: 4},

	// Requests are late or unanswered.
	"silence":   {owners: 3, once: []string{"silence"}, look: 1},
	"forgotten": {twice: []string{"forget"}, properties: "Exclusion Kept Served"},
	"delay":     {owners: 3, once: []string{"delay"}, look: 2},
	"reply":     {owners: 3, once: []string{"reply"}, look: 1},

	// Messages are late, repeated and forged.
	"late":   {owners: 3, once: []string{"delay", "copy"}, properties: "Exclusion Kept Nothing"},
	"forged": {owners: 2, once: []string{"silence", "copy", "forge", "freeze"}, properties: "Exclusion Kept Nothing"},
}

// present are the rules that the first design of the queue lacks.
var present = []string{
	"settle", "give back", "doubt counts from an answer", "doubt looks", "the first looks",
	"the first is told", "a look passes", "a departure passes", "bounds tell", "secret",
}

// A hole is a scene in which a property breaks without some rules.
type hole struct {
	off    []string
	scene  string
	change func(*scene) // nil: none
	breaks string
}

// holes has what the first design breaks, and each rule of the second, left out.
var holes = map[string]hole{
	"first design: small request behind large ones": {
		off: present, scene: "bounds", breaks: "Served",
		change: func(s *scene) { s.silent, s.look = false, 2 },
	},
	"first design: grant to a stale entry": {off: present, scene: "forgotten", breaks: "Served"},
	"first design: remembered place":       {off: present, scene: "crash", breaks: "Served"},
	"first design: forged grant":           {off: present, scene: "forged", breaks: "Exclusion"},

	"settle":                        {scene: "silence", breaks: "Nothing"},
	"doubt":                         {scene: "delay", breaks: "Nothing"},
	"doubt counts from an answer":   {scene: "silence", breaks: "Nothing"},
	"doubt looks":                   {scene: "silence", breaks: "Served"},
	"give back":                     {scene: "forgotten", breaks: "Served"},
	"only unknown owners give back": {scene: "late", breaks: "Kept"},
	"a loss waits":                  {scene: "silence", breaks: "Kept"},
	"the first looks":               {scene: "crash", breaks: "Served"},
	"ttl":                           {scene: "crash", breaks: "Served"},
	"the first is told":             {scene: "crash", breaks: "Served"},
	"the others look":               {scene: "flushed", breaks: "Served"},
	"a look takes":                  {scene: "frozen", breaks: "Served"},
	"a look passes":                 {scene: "permits", breaks: "Served"},
	"a departure passes":            {scene: "bounds", breaks: "Served"},
	"bounds tell":                   {scene: "bounds", breaks: "Served"},
	"bounds tell the next":          {scene: "bounds", breaks: "Served"},
	"only listeners":                {scene: "quit", breaks: "Served"},
	"secret":                        {scene: "forged", breaks: "Exclusion"},
}

func TestQueue(t *testing.T) {
	jar := os.Getenv("HOLDFAST_TLC")
	if jar == "" {
		t.Skip("TLC is needed: make model")
	}
	for name, s := range scenes {
		t.Run(name, func(t *testing.T) {
			if s.properties == "" {
				s.properties = all
			}
			out := tlc(t, jar, "Queue", s.config(nil))
			if !strings.Contains(out, "No error has been found") {
				t.Errorf("%s", out)
			}
			t.Log(states.FindString(out))
		})
	}
	for name, h := range holes {
		t.Run("without "+name, func(t *testing.T) {
			s := scenes[h.scene]
			if s.properties = h.breaks; h.change != nil {
				h.change(&s)
				kept := s
				kept.properties = h.breaks
				if out := tlc(t, jar, "Queue", kept.config(nil)); !strings.Contains(out, "No error has been found") {
					t.Errorf("broken with all rules: %s", out)
				}
			}
			off := h.off
			if off == nil {
				off = []string{name}
			}
			out := tlc(t, jar, "Queue", s.config(off))
			if !strings.Contains(out, "Invariant "+h.breaks+" is violated.") {
				t.Errorf("%s is not broken:\n%s", h.breaks, out)
			}
			t.Log(states.FindString(out))
		})
	}
}

// Each rule of the model is left out in a case of its own, and no other is.
func TestRules(t *testing.T) {
	model, err := os.ReadFile("Queue.tla")
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range holes {
		for _, rule := range append(slices.Clone(h.off), name) {
			if (h.off == nil || rule != name) && !strings.Contains(string(model), fmt.Sprintf("On(%q)", rule)) {
				t.Errorf("the model has no rule %q", rule)
			}
		}
	}
	for _, part := range strings.Split(string(model), `On("`)[1:] {
		if rule, _, _ := strings.Cut(part, `"`); holes[rule].breaks == "" {
			t.Errorf("no case leaves out the rule %q", rule)
		}
	}
}

// config returns the configuration for TLC without some rules.
func (s scene) config(off []string) string {
	number := func(n, otherwise int) int {
		if n == 0 {
			return otherwise
		}
		return n
	}
	list := func(format string, names []string) string {
		var quoted []string
		for _, n := range names {
			quoted = append(quoted, fmt.Sprintf(format, n))
		}
		return "{" + strings.Join(quoted, ", ") + "}"
	}
	owners := []string{"a", "b", "c", "d"}[:number(s.owners, 4)]
	boolean := func(b bool) string { return strings.ToUpper(fmt.Sprint(b)) }
	cfg := fmt.Sprintf(`CONSTANTS
  Owners = %s
  Big = %s
  N = %d
  L = 3
  G = 2
  D = 1
  Poll = 2
  Rare = 4
  K = %d
  Look = %d
  Looks = %s
  Plain = %s
  Once = %s
  Twice = %s
  Off = %s
SPECIFICATION Spec
SYMMETRY Symmetry
`, list("%s", owners), list("%s", owners[:s.big]), number(s.permits, 1), number(s.examines, 9), s.look,
		boolean(!s.silent), boolean(s.plain), list("%q", s.once), list("%q", s.twice), list("%q", off))
	for _, p := range strings.Fields(s.properties) {
		cfg += "INVARIANT " + p + "\n"
	}
	return cfg
}
