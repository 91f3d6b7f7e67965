package simulation_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A plan is what a seed decides before a schedule begins. What a client, a user or a fault
// draws later depends on its own number only, so that one can be left out without a change
// to the others.
type plan struct {
	seed    uint64
	profile *profile
	users   []int // of each client
	crashes int   // at most
	faults  []planned
	print   string // the fingerprint of the run to replay; "": any run
}

// A planned fault happens some time after the one before it.
type planned struct {
	number int
	after  time.Duration
	fault  *fault // nil: it is left out
	client int
	span   time.Duration
}

func (p plan) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(p.seed, stream)) }

// The streams of random numbers of a seed. Users have those above.
const (
	ofPlan uint64 = iota + 1
	ofOptions
	ofFaults = 1 << 10
	ofUsers  = 1 << 20
)

// planOf returns the plan of a seed.
func planOf(seed uint64, pr *profile) plan {
	p := plan{seed: seed, profile: pr}
	r := p.random(ofPlan)
	clients := pr.clients[0] + r.IntN(pr.clients[1]-pr.clients[0]+1)
	for range clients {
		p.users = append(p.users, 1+r.IntN(pr.users))
	}
	p.crashes = r.IntN(1 + (clients+1)/2)
	for i := range 30 {
		f := planned{number: i, after: upTo(r, 2*time.Second<<(2*(r.IntN(6)/5))), client: r.IntN(clients), span: upTo(r, 8*time.Second)}
		if n := len(pr.faults); n > 0 {
			f.fault = pr.faults[r.IntN(n)]
		}
		p.faults = append(p.faults, f)
	}
	return p
}

// size returns how many users and faults a plan has.
func (p plan) size() (users, faults int) {
	for _, n := range p.users {
		users += n
	}
	for _, f := range p.faults {
		if f.fault != nil {
			faults++
		}
	}
	return users, faults
}

// String returns the plan as HOLDFAST_SEED has it: the profile and the seed, if parts are left
// out, the number of users of each client and the numbers of the faults, and the fingerprint of
// a run.
func (p plan) String() string {
	if p.print != "" {
		print := "#" + p.print
		p.print = ""
		return p.String() + print
	}
	name := fmt.Sprintf("%s:%d", strings.ReplaceAll(p.profile.name, " ", "_"), p.seed)
	whole := planOf(p.seed, p.profile)
	if slices.Equal(p.users, whole.users) && slices.Equal(p.faults, whole.faults) {
		return name
	}
	var users, faults []string
	for _, n := range p.users {
		users = append(users, strconv.Itoa(n))
	}
	for _, f := range p.faults {
		if f.fault != nil {
			faults = append(faults, strconv.Itoa(f.number))
		}
	}
	return fmt.Sprintf("%s/%s/%s", name, strings.Join(users, ","), strings.Join(faults, ","))
}

// parsePlan returns the plan that a text names.
func parsePlan(text string) (plan, error) {
	rest, print, _ := strings.Cut(text, "#")
	parts := strings.Split(rest, "/")
	name, number, _ := strings.Cut(parts[0], ":")
	profile := profileOf(strings.ReplaceAll(name, "_", " "))
	seed, err := strconv.ParseUint(number, 10, 64)
	if profile == nil || err != nil || len(parts) != 1 && len(parts) != 3 {
		return plan{}, fmt.Errorf("HOLDFAST_SEED is %q, want a profile and a seed such as fair:17, or fair:17/1,0,2/3,5#3f81a0 with the users of each client, the faults and the fingerprint of a run", text)
	}
	p := planOf(seed, profile)
	p.print = print
	if len(parts) == 1 {
		return p, nil
	}
	for i, n := range strings.Split(parts[1], ",") {
		if i < len(p.users) {
			p.users[i], _ = strconv.Atoi(n)
		}
	}
	kept := strings.Split(parts[2], ",")
	for i := range p.faults {
		if !slices.Contains(kept, strconv.Itoa(i)) {
			p.faults[i].fault = nil
		}
	}
	return p, nil
}

// fingerprint returns a number of the timeline. Runs with the same one are the same.
func (w *world) fingerprint() string {
	h := fnv.New32()
	for _, line := range w.text() {
		fmt.Fprintln(h, line)
	}
	return fmt.Sprintf("%06x", h.Sum32()>>8)
}

// maxReplays is how often a plan is run until a run has the fingerprint. Where goroutines of
// one client run at the same instant, the scheduler of Go decides, and preempts when it likes:
// of fifty runs one differs.
const maxReplays = 20

// replay runs a plan until the run has the fingerprint of the plan, and returns how often.
func replay(t *testing.T, p plan) (w *world, runs int) {
	t.Helper()
	for runs = 1; runs <= maxReplays; runs++ {
		if w = schedule(t, p); p.print == "" || w.fingerprint() == p.print {
			return w, runs
		}
	}
	return nil, maxReplays
}

// broke reports whether a promise was broken.
func (w *world) broke(promise string) bool {
	return slices.ContainsFunc(w.failed, func(f failure) bool { return f.promise == promise })
}

// shrink returns the world of a smaller plan that breaks the same promise, after at most so
// many attempts.
func shrink(t *testing.T, w *world, promise string, attempts int) *world {
	t.Helper()
	best := w
	try := func(p plan) bool {
		if attempts == 0 {
			return false
		}
		attempts--
		w := schedule(t, p)
		if !w.broke(promise) {
			return false
		}
		best = w
		return true
	}
	for before := -1; ; {
		users, faults := best.plan.size()
		if users+faults == before || attempts == 0 {
			return best
		}
		before = users + faults
		for size := len(best.plan.faults); size > 0; size /= 2 { // faults, many at a time
			for from := 0; from < len(best.plan.faults); from += size {
				p := best.plan
				p.faults = slices.Clone(p.faults)
				n := 0
				for i := from; i < min(from+size, len(p.faults)); i++ {
					if p.faults[i].fault != nil {
						p.faults[i].fault = nil
						n++
					}
				}
				if n > 0 {
					try(p)
				}
			}
		}
		for size := len(best.plan.users); size > 0; size /= 2 { // clients
			for from := 0; from < len(best.plan.users); from += size {
				p := best.plan
				p.users = slices.Clone(p.users)
				for i := from; i < min(from+size, len(p.users)); i++ {
					p.users[i] = 0
				}
				if !slices.Equal(p.users, best.plan.users) {
					try(p)
				}
			}
		}
		for i, n := range best.plan.users {
			for n > 1 {
				n--
				p := best.plan
				p.users = slices.Clone(p.users)
				p.users[i] = n
				if !try(p) {
					break
				}
			}
		}
	}
}
