package script

import (
	"maps"
	"slices"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
)

// MaxBatch is how many calls a batch has at most. The server does nothing else while a
// batch runs.
const MaxBatch = 128

// batches has the scripts that run several calls of a script, by that script.
var batches = func() map[*driver.Script]*driver.Script {
	all := make(map[*driver.Script]*driver.Script)
	for _, s := range []*driver.Script{
		mutexAcquire, mutexRelease, mutexQueue, mutexGrant,
		fencedAcquire, fencedQueue, fencedGrant,
		readAcquire, readRelease, readGrant,
		writeAcquire, writeRelease, writeQueue, writeGrant,
		semaphoreAcquire, semaphoreRelease,
		leasedAcquire, leasedQueue, leasedGrant, leasedRelease,
		rateLimiterTake,
	} {
		first, usual := "", "local all\n"
		switch s {
		case mutexAcquire:
			usual = read("batch/mutex_acquire")
		case mutexRelease:
			first = read("batch/mutex_release")
		case mutexGrant:
			usual = read("lib/listeners") + read("batch/mutex_grant")
		}
		all[s] = newScript("batch", first+"local function call(KEYS, ARGV)\n"+s.Source+"end\n"+usual)
		all[s].Name = s.Name + "_batch"
	}
	return all
}()

// lots has, for scripts that release a lock, which argument is a random number. All calls
// of a batch can have the same.
var lots = map[*driver.Script]int{mutexGrant: 5, fencedGrant: 5, readGrant: 4, writeGrant: 4, leasedGrant: 3}

// A Batch is several calls of one script that run as one call. Each has its own reply.
// The calls are independent of each other: one that fails does not prevent the others.
type Batch struct {
	calls  []driver.Call
	keys   []string
	args   []string
	differ []byte
}

// Batched returns all scripts whose calls can be in a batch.
func Batched() []*driver.Script { return slices.Collect(maps.Keys(batches)) }

// CanBatch reports whether a call can be in a batch. The calls of a batch must have the same
// script, the same numbers of keys and arguments, and keys in the same slot.
func CanBatch(c driver.Call) bool { return batches[c.Script] != nil }

// Alike reports whether calls have the same script and the same numbers of keys and
// arguments.
func Alike(a, b driver.Call) bool {
	return a.Script == b.Script && len(a.Keys) == len(b.Keys) && len(a.Args) == len(b.Args)
}

// Add adds a call, see CanBatch.
func (b *Batch) Add(c driver.Call) { b.calls = append(b.calls, c) }

// Len returns how many calls the batch has.
func (b *Batch) Len() int { return len(b.calls) }

// Call returns the call that runs the batch. It does not use the slices of the calls.
func (b *Batch) Call() driver.Call {
	first := b.calls[0]
	b.keys, b.args = b.keys[:0], b.args[:0]
	for _, c := range b.calls {
		b.keys = append(b.keys, c.Keys...)
	}
	if len(b.calls) == 1 {
		b.args = append(b.args, first.Args...)
		return driver.Call{Script: first.Script, Keys: b.keys, Args: b.args}
	}
	b.differ = b.differ[:0]
	lot := lots[first.Script]
	for i, arg := range first.Args {
		if i+1 != lot && slices.ContainsFunc(b.calls, func(c driver.Call) bool { return c.Args[i] != arg }) {
			b.differ = append(b.differ, byte('1'+i))
		}
	}
	b.args = append(b.args, strconv.Itoa(len(first.Keys)), strconv.Itoa(len(first.Args)), publish, strconv.Itoa(first.Script.Publish), string(b.differ))
	b.args = append(b.args, first.Args...)
	for _, c := range b.calls[1:] {
		for _, digit := range b.differ {
			b.args = append(b.args, c.Args[digit-'1'])
		}
	}
	return driver.Call{Script: batches[first.Script], Keys: b.keys, Args: b.args}
}

// Reset removes all calls.
func (b *Batch) Reset() {
	clear(b.calls)
	clear(b.keys)
	clear(b.args)
	b.calls = b.calls[:0]
}

// Decode decodes the reply to a batch. It calls each for each call with its reply, or with
// failed set. A call that failed must be sent again alone, which returns its error.
func (b *Batch) Decode(r driver.Reply, each func(i int, reply driver.Reply, failed bool)) error {
	n := len(b.calls)
	if n == 1 {
		each(0, r, false)
		return nil
	}
	if r.Type != driver.List || len(r.List) != 1+n && len(r.List) != 2 || r.List[0].Type != driver.List {
		return unexpected(batches[b.calls[0].Script], r)
	}
	failed := r.List[0].List
	for i := range n {
		if len(failed) > 0 && failed[0].Int == int64(i+1) {
			failed = failed[1:]
			each(i, driver.Reply{}, true)
			continue
		}
		each(i, r.List[min(i+1, len(r.List)-1)], false)
	}
	return nil
}
