package memory

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// A matcher matches a pattern of Lua as the Lua of Redis does. It counts its steps, because
// the time of a pattern can grow with a high power of the length of the text.
type matcher struct {
	vm       *lua.LState
	meter    *meter
	src, pat string
	depth    int
	captures []capture
}

// A capture is a part of the text, or a position.
type capture struct{ from, size int }

const (
	capOpen     = -1 // the capture is not closed yet
	capPosition = -2

	maxCaptures = 32
	maxDepth    = 200 // of the matcher
)

// match matches the pattern from p on with the text from s on. It returns the end of the
// match, or -1.
func (m *matcher) match(s, p int) int {
	if m.depth++; m.depth > maxDepth {
		m.vm.RaiseError("pattern too complex")
	}
	defer func() { m.depth-- }()
	for p < len(m.pat) {
		m.meter.step(m.vm, 1)
		switch c := m.pat[p]; {
		case c == '(':
			if strings.HasPrefix(m.pat[p+1:], ")") {
				return m.open(s, p+2, capPosition)
			}
			return m.open(s, p+1, capOpen)
		case c == ')':
			return m.closeCapture(s, p+1)
		case c == '$' && p+1 == len(m.pat):
			if s == len(m.src) {
				return s
			}
			return -1
		case c == '%' && strings.HasPrefix(m.pat[p+1:], "b"):
			if s = m.balance(s, p+2); s < 0 {
				return -1
			}
			p += 4
			continue
		case c == '%' && strings.HasPrefix(m.pat[p+1:], "f"):
			end := m.frontier(s, p+2)
			if end < 0 {
				return -1
			}
			p = end
			continue
		case c == '%' && p+1 < len(m.pat) && isDigit(m.pat[p+1]):
			if s = m.again(s, m.pat[p+1]); s < 0 {
				return -1
			}
			p += 2
			continue
		}
		end := m.classEnd(p)
		var next byte
		if end < len(m.pat) {
			next = m.pat[end]
		}
		switch next {
		case '?':
			if m.single(s, p, end) {
				if r := m.match(s+1, end+1); r >= 0 {
					return r
				}
			}
			p = end + 1
		case '*':
			return m.most(s, p, end)
		case '+':
			if !m.single(s, p, end) {
				return -1
			}
			return m.most(s+1, p, end)
		case '-':
			for {
				if r := m.match(s, end+1); r >= 0 {
					return r
				}
				if !m.single(s, p, end) {
					return -1
				}
				s++
			}
		default:
			if !m.single(s, p, end) {
				return -1
			}
			s, p = s+1, end
		}
	}
	return s
}

// most matches as many characters as it can.
func (m *matcher) most(s, p, end int) int {
	n := 0
	for m.single(s+n, p, end) {
		n++
	}
	for ; n >= 0; n-- {
		if r := m.match(s+n, end+1); r >= 0 {
			return r
		}
	}
	return -1
}

// classEnd returns the index behind the single character, or class, at p.
func (m *matcher) classEnd(p int) int {
	c := m.pat[p]
	p++
	switch c {
	case '%':
		if p == len(m.pat) {
			m.vm.RaiseError("malformed pattern (ends with '%%')")
		}
		return p + 1
	case '[':
		if strings.HasPrefix(m.pat[p:], "^") {
			p++
		}
		for first := true; first || p >= len(m.pat) || m.pat[p] != ']'; first = false {
			if p < len(m.pat) && m.pat[p] == '%' {
				p++
			}
			if p >= len(m.pat) {
				m.vm.RaiseError("malformed pattern (missing ']')")
			}
			m.meter.step(m.vm, 1)
			p++
		}
		return p + 1
	}
	return p
}

// single reports whether the character at s is one of the class between p and end.
func (m *matcher) single(s, p, end int) bool {
	m.meter.step(m.vm, 1)
	return s < len(m.src) && m.has(m.src[s], p, end)
}

// has reports whether c is in the class between p and end.
func (m *matcher) has(c byte, p, end int) bool {
	switch m.pat[p] {
	case '.':
		return true
	case '%':
		return isClass(c, m.pat[p+1])
	case '[':
		m.meter.step(m.vm, end-p)
		return m.inSet(c, p+1, end-1)
	default:
		return m.pat[p] == c
	}
}

// inSet reports whether c is in the set between p and end, which are behind and before its
// brackets.
func (m *matcher) inSet(c byte, p, end int) bool {
	in := true
	if m.pat[p] == '^' {
		in = false
		p++
	}
	for ; p < end; p++ {
		switch {
		case m.pat[p] == '%' && p+1 < end:
			p++
			if isClass(c, m.pat[p]) {
				return in
			}
		case p+2 < end && m.pat[p+1] == '-':
			if m.pat[p] <= c && c <= m.pat[p+2] {
				return in
			}
			p += 2
		case m.pat[p] == c:
			return in
		}
	}
	return !in
}

func (m *matcher) open(s, p, size int) int {
	if len(m.captures) == maxCaptures {
		m.vm.RaiseError("too many captures")
	}
	m.captures = append(m.captures, capture{s, size})
	r := m.match(s, p)
	if r < 0 {
		m.captures = m.captures[:len(m.captures)-1]
	}
	return r
}

func (m *matcher) closeCapture(s, p int) int {
	for i := len(m.captures) - 1; i >= 0; i-- {
		if c := &m.captures[i]; c.size == capOpen {
			c.size = s - c.from
			r := m.match(s, p)
			if r < 0 {
				m.captures[i].size = capOpen
			}
			return r
		}
	}
	m.vm.RaiseError("invalid pattern capture")
	return -1
}

// balance matches %bxy.
func (m *matcher) balance(s, p int) int {
	if p+1 >= len(m.pat) {
		m.vm.RaiseError("unbalanced pattern")
	}
	if s >= len(m.src) || m.src[s] != m.pat[p] {
		return -1
	}
	n := 1
	for s++; s < len(m.src); s++ {
		m.meter.step(m.vm, 1)
		switch m.src[s] {
		case m.pat[p+1]:
			if n--; n == 0 {
				return s + 1
			}
		case m.pat[p]:
			n++
		}
	}
	return -1
}

// frontier matches %f[set], and returns the index behind the set, or -1.
func (m *matcher) frontier(s, p int) int {
	if p >= len(m.pat) || m.pat[p] != '[' {
		m.vm.RaiseError("missing '[' after '%%f' in pattern")
	}
	end := m.classEnd(p)
	var before, after byte
	if s > 0 {
		before = m.src[s-1]
	}
	if s < len(m.src) {
		after = m.src[s]
	}
	if m.has(before, p, end) || !m.has(after, p, end) {
		return -1
	}
	return end
}

// again matches the text of a capture.
func (m *matcher) again(s int, digit byte) int {
	i := int(digit) - '1'
	if i < 0 || i >= len(m.captures) || m.captures[i].size < 0 {
		m.vm.RaiseError("invalid capture index")
	}
	c := m.captures[i]
	m.meter.step(m.vm, c.size)
	if !strings.HasPrefix(m.src[s:], m.src[c.from:c.from+c.size]) {
		return -1
	}
	return s + c.size
}

// value returns a capture. Without captures, the first is the whole match.
func (m *matcher) value(i, from, to int) lua.LValue {
	if i >= len(m.captures) {
		if i > 0 {
			m.vm.RaiseError("invalid capture index")
		}
		return lua.LString(m.src[from:to])
	}
	switch c := m.captures[i]; c.size {
	case capOpen:
		m.vm.RaiseError("unfinished capture")
		return lua.LNil
	case capPosition:
		return lua.LNumber(c.from + 1)
	default:
		return lua.LString(m.src[c.from : c.from+c.size])
	}
}

// push pushes all captures, or the whole match if there are none and whole is set.
func (m *matcher) push(from, to int, whole bool) int {
	n := len(m.captures)
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		m.vm.Push(m.value(i, from, to))
	}
	return n
}

// next finds the first match from s on, only at s itself if anchored is set.
func (m *matcher) next(s int, anchored bool) (from, to int) {
	for ; s <= len(m.src); s++ {
		m.captures = m.captures[:0]
		if to := m.match(s, 0); to >= 0 || anchored {
			return s, to
		}
	}
	return s, -1
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isClass reports whether c is in the class that a letter means, or is that character.
func isClass(c, letter byte) bool {
	var in bool
	lower, upper, digit := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', isDigit(c)
	switch letter | 0x20 {
	case 'a':
		in = lower || upper
	case 'c':
		in = c < ' ' || c == 0x7f
	case 'd':
		in = digit
	case 'l':
		in = lower
	case 'p':
		in = '!' <= c && c <= '~' && !lower && !upper && !digit
	case 's':
		in = c == ' ' || '\t' <= c && c <= '\r'
	case 'u':
		in = upper
	case 'w':
		in = lower || upper || digit
	case 'x':
		in = digit || 'a' <= c|0x20 && c|0x20 <= 'f'
	case 'z':
		in = c == 0
	default:
		return letter == c
	}
	if 'A' <= letter && letter <= 'Z' {
		return !in
	}
	return in
}
