package rueidis

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

// A checkedConn is a connection for commands of rueidis that checks all replies.
// At a reply that rueidis cannot handle, it closes the connection: rueidis
// panics, in a goroutine of its own, at an unexpected reply and at a negative
// length, allocates any length that a server claims, and recurses without a
// limit into nested lists.
//
// A checkedConn parses the framing of what is read and written. It stores no
// data and does not allocate.
type checkedConn struct {
	net.Conn
	unanswered atomic.Int64 // commands without a reply so far
	in         replies
	out        commands
	err        error       // why reading has ended
	forget     func() bool // the node need not close it any more
}

// Close closes the connection.
func (c *checkedConn) Close() error {
	c.forget()
	return c.Conn.Close()
}

// Read reads from the server. If the data contains an invalid part, Read fails
// and drops all of it.
func (c *checkedConn) Read(b []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.Conn.Read(b)
	if n > 0 {
		if c.err = c.in.check(b[:n], &c.unanswered); c.err != nil {
			_ = c.Close()
			return 0, c.err
		}
	}
	return n, err
}

// Write counts the commands before it sends them, since the reply may arrive at
// once.
func (c *checkedConn) Write(b []byte) (int, error) {
	c.unanswered.Add(c.out.count(b))
	return c.Conn.Write(b)
}

// Limits of a reply. By default, servers accept no longer string. No reply to a
// command of this driver comes near the other limits.
const (
	maxString   = 512 << 20 // all strings of a reply together
	maxElements = 1 << 20   // all lists of a reply together
	maxDepth    = 32
	maxText     = 16 << 20 // one line, such as an error
)

var (
	errUnexpected = errors.New("the server sent a reply that belongs to no command")
	errPush       = errors.New("the server sent a message that belongs to no subscription")
)

func errReply(what string, n int64) error {
	return fmt.Errorf("the server sent an invalid reply: %s %d", what, n)
}

// A part says what the next byte belongs to.
type part uint8

const (
	partType   part = iota // the first byte of a reply
	partText               // a line
	partLength             // a line with a length
	partString             // a string of a known length, with its line end
)

// replies parses the framing of what a server sends.
type replies struct {
	part     part
	typ      byte
	last     byte  // last byte of the line so far; in a length, '0' stands for any digit
	negative bool  // the length has a minus sign
	length   int64 // the length of the line, or the number in it
	skip     int64 // bytes of the string still to come
	strings  int64 // total length of the strings in this reply
	elements int64 // total number of list elements in this reply
	depth    int
	left     [maxDepth]int64 // elements of each open list still to come
}

// check parses what was read.
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
				return errUnexpected
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

// validLine reports whether a complete line has the length that rueidis assumes
// for its type.
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

// begin handles a complete length.
func (r *replies) begin() error {
	n := r.length
	if r.negative {
		if n != 1 || r.typ != '$' && r.typ != '*' {
			return errReply("length", -n)
		}
		r.end() // null in RESP2
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

// end handles the end of a reply or of a list element.
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

// commands parses the framing of what rueidis sends: lists of strings.
type commands struct {
	part   part
	length int64
	skip   int64
	args   int64 // arguments of this command still to come
}

// count returns how many commands begin in b.
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
			i, length := 0, c.length
			for ; i < len(b) && b[i] >= '0'; i++ { // not the line end
				length = length*10 + int64(b[i]-'0')
			}
			c.length = length
			for i < len(b) && b[i] != '\n' {
				i++
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
