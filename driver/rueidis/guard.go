package rueidis

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

// A guard is a connection that carries commands of rueidis. It refuses replies
// that rueidis cannot survive, and closes the connection instead: rueidis
// panics, in a goroutine of its own, at a reply that it did not ask for and at a
// negative length, allocates whatever length a server claims, and recurses as
// deep as lists are nested.
//
// The guard follows the framing of what is read and written. It keeps no data
// and allocates nothing.
type guard struct {
	net.Conn
	owed atomic.Int64 // commands that are not answered yet
	in   replies
	out  commands
	bad  error // why nothing more is read
}

// Read reads what the server says, and fails at the first part that is not
// valid. What came with that part is dropped: it cannot be trusted either.
func (g *guard) Read(b []byte) (int, error) {
	if g.bad != nil {
		return 0, g.bad
	}
	n, err := g.Conn.Read(b)
	if n > 0 {
		if g.bad = g.in.check(b[:n], &g.owed); g.bad != nil {
			_ = g.Close()
			return 0, g.bad
		}
	}
	return n, err
}

// Write counts commands before they are sent, since the reply may be quick.
func (g *guard) Write(b []byte) (int, error) {
	g.owed.Add(g.out.count(b))
	return g.Conn.Write(b)
}

// What a reply may be, at most. Servers accept no longer string, unless they are
// told to; no reply that is asked for here comes near the other bounds.
const (
	maxString   = 512 << 20 // all strings of a reply together
	maxElements = 1 << 20   // all lists of a reply together
	maxDepth    = 32
	maxText     = 16 << 20 // a line, such as an error
)

var (
	errUnasked = errors.New("the server has sent a reply that was not asked for")
	errPush    = errors.New("the server has sent a message that was not subscribed to")
)

func errReply(what string, n int64) error {
	return fmt.Errorf("the server has sent a reply that is not valid: %s %d", what, n)
}

// A part is what the next byte belongs to.
type part uint8

const (
	partType   part = iota // the first byte of a reply
	partText               // a line
	partLength             // a line with a length
	partString             // a string of a known length, and the end of its line
)

// replies follows the framing of what a server sends.
type replies struct {
	part     part
	typ      byte
	last     byte  // of the line so far; of a length '0' for any digit
	negative bool  // of the length so far
	length   int64 // of the line, or what the line says
	skip     int64 // bytes of a string that are still to come
	strings  int64 // of the present reply
	elements int64 // of the present reply
	depth    int
	left     [maxDepth]int64 // elements of each list that are still to come
}

// check takes in what was read.
func (r *replies) check(b []byte, owed *atomic.Int64) error {
	for len(b) > 0 {
		switch r.part {
		case partString:
			n := min(int64(len(b)), r.skip)
			b = b[n:]
			if r.skip -= n; r.skip == 0 {
				r.end()
			}
		case partType:
			if r.depth == 0 && owed.Add(-1) < 0 {
				return errUnasked
			}
			r.typ, r.last, r.length, r.negative = b[0], 0, 0, false
			b = b[1:]
			switch r.typ {
			case '+', '-', ':', ',', '(', '#', '_':
				r.part = partText
			case '$', '*', '%', '~', '=', '!':
				r.part = partLength
			case '>':
				return errPush
			default:
				return errReply("type", int64(r.typ))
			}
		case partText:
			i := bytes.IndexByte(b, '\n')
			line := b
			if i >= 0 {
				line = b[:i]
			}
			if len(line) > 0 {
				r.last = line[len(line)-1]
			}
			if r.length += int64(len(line)); r.length > maxText {
				return errReply("line of length", r.length)
			}
			if i < 0 {
				return nil
			}
			if b = b[i+1:]; !r.validLine() {
				return errReply("line of type", int64(r.typ))
			}
			r.end()
		case partLength:
			i := 0
			for r.last != '\r' && i < len(b) && b[i]-'0' <= 9 && r.length <= maxString {
				r.length = r.length*10 + int64(b[i]-'0')
				i++
			}
			if i > 0 {
				r.last = '0'
			}
			if b = b[i:]; len(b) == 0 {
				return nil
			}
			switch c := b[0]; {
			case c == '\r' && r.last == '0':
				r.last = c
			case c == '-' && r.last == 0:
				r.last, r.negative = c, true
			case c == '\n' && r.last == '\r':
				if err := r.begin(); err != nil {
					return err
				}
			default:
				return errReply("length with byte", int64(c))
			}
			b = b[1:]
		}
	}
	return nil
}

// validLine reports whether a line that is complete is one that rueidis takes
// for as long as it is.
func (r *replies) validLine() bool {
	switch {
	case r.last != '\r':
		return false
	case r.typ == '_':
		return r.length == 1
	case r.typ == '#':
		return r.length == 2
	}
	return true
}

// begin takes in that a length is complete.
func (r *replies) begin() error {
	n := r.length
	if r.negative {
		if n != 1 || r.typ != '$' && r.typ != '*' {
			return errReply("length", -n)
		}
		r.end() // nothing, in the older protocol
		return nil
	}
	switch r.typ {
	case '$', '=', '!':
		if r.strings += n; r.strings > maxString {
			return errReply("strings of length", r.strings)
		}
		r.part, r.skip = partString, n+2
		return nil
	case '%':
		n *= 2
	}
	if r.elements += n; r.elements > maxElements {
		return errReply("elements", r.elements)
	}
	if n == 0 {
		r.end()
		return nil
	}
	if r.depth == maxDepth {
		return errReply("lists nested deeper than", maxDepth)
	}
	r.left[r.depth] = n
	r.depth++
	r.part = partType
	return nil
}

// end takes in that a reply, or an element of a list, is complete.
func (r *replies) end() {
	r.part = partType
	for r.depth > 0 {
		if r.left[r.depth-1]--; r.left[r.depth-1] > 0 {
			return
		}
		r.depth--
	}
	r.strings, r.elements = 0, 0
}

// commands follows the framing of what rueidis sends: lists of strings.
type commands struct {
	part   part
	length int64
	skip   int64
	args   int64 // of the present command that are still to come
}

// count returns how many commands begin in what is written.
func (c *commands) count(b []byte) (n int64) {
	for len(b) > 0 {
		switch c.part {
		case partString:
			k := min(int64(len(b)), c.skip)
			b = b[k:]
			if c.skip -= k; c.skip == 0 {
				c.part = partType
			}
		case partType:
			if c.args == 0 {
				n++
			}
			c.part, c.length = partLength, 0
			b = b[1:]
		default:
			i := 0
			for ; i < len(b) && b[i] != '\n'; i++ {
				if b[i] != '\r' {
					c.length = c.length*10 + int64(b[i]-'0')
				}
			}
			if i == len(b) {
				return n
			}
			b = b[i+1:]
			if c.args > 0 {
				c.args--
				c.part, c.skip = partString, c.length+2
			} else {
				c.part, c.args = partType, c.length
			}
		}
	}
	return n
}
