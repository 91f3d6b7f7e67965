// Package numbered names the requests that the server must not execute twice.
//
// Most requests can be sent twice because of what they store at the server: a claim for a lock that
// the owner already holds is granted. Others, such as raising a number by one, store nothing of
// that kind. Such a request has a number in a sequence. The server keeps a mark for each sequence:
// its last number, and the answer. There are as many sequences as requests under way at the same
// time, so the number of marks does not grow with the number of requests.
//
// A mark is needed while a second copy of its request may arrive. A request that was sent once and
// answered has no second copy, so the next request of its sequence deletes its mark. The number of
// marks of a client therefore grows with its sequences, not with the objects that it uses. In a
// cluster, both requests must be in one slot for this. Other marks expire.
package numbered

import (
	"strconv"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Life is how long a request is repeated, shorter than its mark lives, so that it is executed once.
const Life = script.MarkLife / 2

// Sequences are the sequences of one client.
type Sequences struct {
	d  driver.Driver
	id string // of the client

	mu    sync.Mutex
	last  uint64         // number of a request
	free  []int          // sequences below next that are not in use
	next  int            // sequence
	spent map[int]string // by sequence: the mark of a request that was sent once and answered
}

// New returns the sequences of a client on d, which has that id.
func New(d driver.Driver, id string) *Sequences {
	return &Sequences{d: d, id: id, spent: make(map[int]string)}
}

// A Request is a request with a number.
type Request struct {
	Name     string // the id of the client, the sequence, and a number that is higher than all earlier ones
	Mark     string // the key of the mark, see Spends; "": it has none
	sequence int
}

// Next returns a new request, in a sequence that is not in use.
func (s *Sequences) Next() Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var r Request
	if n := len(s.free); n > 0 {
		r.sequence, s.free = s.free[n-1], s.free[:n-1]
	} else {
		r.sequence = s.next
		s.next++
	}
	s.last++
	b := make([]byte, 0, 64)
	b = strconv.AppendInt(append(append(b, s.id...), ':'), int64(r.sequence), 10)
	r.Name = string(strconv.AppendUint(append(b, ':'), s.last, 10))
	return r
}

// Spends notes the mark of a request. It returns an earlier one that its call can delete, or "".
func (s *Sequences) Spends(r *Request, call driver.Call) string {
	r.Mark = script.MarkOf(call)
	s.mu.Lock()
	spent := s.spent[r.sequence]
	delete(s.spent, r.sequence)
	s.mu.Unlock()
	if spent == "" || spent == r.Mark {
		return ""
	}
	if was, is := s.d.Place(spent), s.d.Place(r.Mark); was.Node != is.Node || was.Slot != is.Slot {
		return ""
	}
	return spent
}

// Free makes the sequence of a request available again. If it is unknown whether the request was
// executed, its sequence must not be freed: a new request would replace its mark. The next request
// of the sequence can delete the mark spent, that of r if it was sent once and answered; "": none.
func (s *Sequences) Free(r *Request, spent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, r.sequence)
	if spent != "" {
		s.spent[r.sequence] = spent
	}
}
