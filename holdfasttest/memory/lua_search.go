package memory

import (
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// The functions of the library string that take a pattern.

func (m *meter) find(vm *lua.LState) int { return m.search(vm, true) }

func (m *meter) matchText(vm *lua.LState) int { return m.search(vm, false) }

func (m *meter) search(vm *lua.LState, positions bool) int {
	text, pattern, at := vm.CheckString(1), vm.CheckString(2), vm.OptInt(3, 1)
	if at < 0 {
		at += len(text) + 1
	}
	at = min(max(at-1, 0), len(text))
	if positions && (vm.ToBool(4) || !strings.ContainsAny(pattern, "^$*+?.([%-")) {
		m.take(vm, len(text)-at)
		i := strings.Index(text[at:], pattern)
		if i < 0 {
			vm.Push(lua.LNil)
			return 1
		}
		vm.Push(lua.LNumber(at + i + 1))
		vm.Push(lua.LNumber(at + i + len(pattern)))
		return 2
	}
	pattern, anchored := strings.CutPrefix(pattern, "^")
	x := &matcher{vm: vm, meter: m, src: text, pat: pattern}
	from, to := x.next(at, anchored)
	switch {
	case to < 0:
		vm.Push(lua.LNil)
		return 1
	case positions:
		vm.Push(lua.LNumber(from + 1))
		vm.Push(lua.LNumber(to))
		return 2 + x.push(from, to, false)
	default:
		return x.push(from, to, true)
	}
}

func (m *meter) gmatch(vm *lua.LState) int {
	x := &matcher{vm: vm, meter: m, src: vm.CheckString(1), pat: vm.CheckString(2)}
	at := 0
	m.take(vm, 256)
	vm.Push(vm.NewFunction(func(vm *lua.LState) int {
		from, to := x.next(at, false)
		if to < 0 {
			at = len(x.src) + 1
			return 0
		}
		if at = to; to == from {
			at++
		}
		return x.push(from, to, true)
	}))
	return 1
}

func (m *meter) gsub(vm *lua.LState) int {
	text, pattern, most := vm.CheckString(1), vm.CheckString(2), vm.OptInt(4, math.MaxInt)
	by := vm.CheckAny(3)
	if n, ok := by.(lua.LNumber); ok {
		by = lua.LString(formatNumber(float64(n), 14))
	}
	switch by.(type) {
	case lua.LString, *lua.LTable, *lua.LFunction:
	default:
		vm.ArgError(3, "string/function/table expected")
	}
	pattern, anchored := strings.CutPrefix(pattern, "^")
	x := &matcher{vm: vm, meter: m, src: text, pat: pattern}
	b := buffer{vm: vm, meter: m}
	at, n := 0, 0
	for n < most {
		x.captures = x.captures[:0]
		to := x.match(at, 0)
		if to >= 0 {
			n++
			x.replace(&b, by, at, to)
		}
		switch {
		case to > at:
			at = to
		case at < len(text):
			b.add(text[at : at+1])
			at++
		default:
			most = n // the end
		}
		if anchored {
			break
		}
	}
	b.add(text[at:])
	b.push()
	vm.Push(lua.LNumber(n))
	return 2
}

// replace adds what replaces a match.
func (m *matcher) replace(b *buffer, by lua.LValue, from, to int) {
	var v lua.LValue
	switch by := by.(type) {
	case lua.LString:
		m.expand(b, string(by), from, to)
		return
	case *lua.LTable:
		v = m.vm.GetTable(by, m.value(0, from, to))
	default:
		m.vm.Push(by)
		m.vm.Call(m.push(from, to, true), 1)
		v = m.vm.Get(-1)
		m.vm.Pop(1)
	}
	if lua.LVIsFalse(v) {
		b.add(m.src[from:to])
		return
	}
	text, ok := concatText(v)
	if !ok {
		m.vm.RaiseError("invalid replacement value (a %s)", v.Type())
	}
	b.add(text)
}

// expand adds a replacement, in which %1 is the first capture and %0 the match.
func (m *matcher) expand(b *buffer, by string, from, to int) {
	for by != "" {
		before, rest, found := strings.Cut(by, "%")
		b.add(before)
		switch {
		case !found:
			return
		case rest == "":
			b.add("\x00")
			return
		case rest[0] == '0':
			b.add(m.src[from:to])
		case isDigit(rest[0]):
			text, _ := concatText(m.value(int(rest[0]-'1'), from, to))
			b.add(text)
		default:
			b.add(rest[:1])
		}
		by = rest[1:]
	}
}
