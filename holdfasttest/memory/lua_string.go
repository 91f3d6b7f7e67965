package memory

import (
	"fmt"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// The functions of the library string that differ from those of gopher-lua: they count what
// they take, and do what the Lua of Redis does.

func (m *meter) stringFuncs() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"rep": m.rep, "format": m.format, "find": m.find, "match": m.matchText, "gmatch": m.gmatch, "gsub": m.gsub,
		"lower": m.mapped(func(c byte) byte {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			return c
		}),
		"upper": m.mapped(func(c byte) byte {
			if 'a' <= c && c <= 'z' {
				c -= 'a' - 'A'
			}
			return c
		}),
		"reverse": m.reverse,
	}
}

// A buffer collects a text that a script makes.
type buffer struct {
	strings.Builder
	vm    *lua.LState
	meter *meter
}

func (b *buffer) add(text string) {
	b.meter.take(b.vm, len(text))
	b.WriteString(text)
}

// push pushes the text.
func (b *buffer) push() int {
	b.vm.Push(lua.LString(b.String()))
	return 1
}

func (m *meter) rep(vm *lua.LState) int {
	text, n := vm.CheckString(1), max(vm.CheckInt(2), 0)
	if text != "" && n > math.MaxInt/len(text) {
		vm.RaiseError("resulting string too large")
	}
	m.take(vm, len(text)*n)
	if text == "" {
		n = 0
	}
	vm.Push(lua.LString(strings.Repeat(text, n)))
	return 1
}

func (m *meter) mapped(f func(byte) byte) lua.LGFunction {
	return func(vm *lua.LState) int {
		text := vm.CheckString(1)
		m.take(vm, len(text))
		out := []byte(text)
		for i, c := range out {
			out[i] = f(c)
		}
		vm.Push(lua.LString(out))
		return 1
	}
}

func (m *meter) reverse(vm *lua.LState) int {
	text := vm.CheckString(1)
	m.take(vm, len(text))
	out := make([]byte, len(text))
	for i := range text {
		out[len(text)-1-i] = text[i]
	}
	vm.Push(lua.LString(out))
	return 1
}

// concat is the operator "..". The compiler calls it, see correct.
func (m *meter) concat(vm *lua.LState) int {
	var some [8]string
	parts, size := some[:0], 0
	for i := 1; i <= vm.GetTop(); i++ {
		text, ok := concatText(vm.Get(i))
		if !ok {
			return m.concatObjects(vm)
		}
		parts, size = append(parts, text), size+len(text)
	}
	m.take(vm, size)
	vm.Push(lua.LString(strings.Join(parts, "")))
	return 1
}

func concatText(v lua.LValue) (string, bool) {
	switch v := v.(type) {
	case lua.LString:
		return string(v), true
	case lua.LNumber:
		return formatNumber(float64(v), 14), true
	default:
		return "", false
	}
}

// concatObjects joins values, some neither texts nor numbers, from the right, by
// their metamethods.
func (m *meter) concatObjects(vm *lua.LState) int {
	right := vm.Get(vm.GetTop())
	for i := vm.GetTop() - 1; i > 0; i-- {
		left := vm.Get(i)
		a, okA := concatText(left)
		b, okB := concatText(right)
		if okA && okB {
			m.take(vm, len(a)+len(b))
			right = lua.LString(a + b)
			continue
		}
		join := vm.GetMetaField(left, "__concat")
		if join == lua.LNil {
			join = vm.GetMetaField(right, "__concat")
		}
		if join == lua.LNil {
			bad := left
			if okA {
				bad = right
			}
			vm.RaiseError("attempt to concatenate a %s value", bad.Type())
		}
		vm.Push(join)
		vm.Push(left)
		vm.Push(right)
		vm.Call(2, 1)
		right = vm.Get(-1)
		vm.Pop(1)
	}
	vm.Push(right)
	return 1
}

// tableConcat is table.concat.
func (m *meter) tableConcat(vm *lua.LState) int {
	t, sep := vm.CheckTable(1), vm.OptString(2, "")
	from := vm.OptInt(3, 1)
	to := vm.OptInt(4, t.Len())
	b := buffer{vm: vm, meter: m}
	for i := from; i <= to; i++ {
		v := t.RawGetInt(i)
		text, ok := concatText(v)
		if !ok {
			vm.RaiseError("invalid value (%s) at index %d in table for 'concat'", v.Type(), i)
		}
		b.add(text)
		if i == to {
			break // also if it is the largest number
		}
		b.add(sep)
	}
	return b.push()
}

// format is string.format.
func (m *meter) format(vm *lua.LState) int {
	format, arg := vm.CheckString(1), 1
	b := buffer{vm: vm, meter: m}
	for format != "" {
		before, rest, found := strings.Cut(format, "%")
		b.add(before)
		if !found {
			break
		}
		if strings.HasPrefix(rest, "%") {
			b.add("%")
			format = rest[1:]
			continue
		}
		spec, verb, after := directive(vm, rest)
		format = after
		arg++
		b.format(arg, spec, verb)
	}
	return b.push()
}

// directive parses what follows a percent sign.
func directive(vm *lua.LState, text string) (spec string, verb byte, rest string) {
	i := 0
	digits := func() {
		for n := 0; i < len(text) && isDigit(text[i]); n++ {
			if i++; n == 2 {
				vm.RaiseError("invalid format (width or precision too long)")
			}
		}
	}
	for i < len(text) && strings.IndexByte("-+ #0", text[i]) >= 0 {
		if i++; i > 5 {
			vm.RaiseError("invalid format (repeated flags)")
		}
	}
	digits()
	if i < len(text) && text[i] == '.' {
		i++
		digits()
	}
	if i == len(text) {
		vm.RaiseError("invalid option '%%' to 'format'")
	}
	return "%" + text[:i], text[i], text[i+1:]
}

// format adds an argument.
func (b *buffer) format(arg int, spec string, verb byte) {
	number := func() float64 { return argNumber(b.vm, arg) }
	switch verb {
	case 'd', 'i':
		b.add(fmt.Sprintf(spec+"d", integral(number())))
	case 'u':
		b.add(fmt.Sprintf(spec+"d", uint64(integral(number()))))
	case 'o', 'x', 'X':
		b.add(fmt.Sprintf(spec+string(verb), uint64(integral(number()))))
	case 'c':
		b.add(string([]byte{byte(integral(number()))}))
	case 'e', 'E', 'f', 'g', 'G':
		f := number()
		if math.IsInf(f, 0) || math.IsNaN(f) {
			width, _, _ := strings.Cut(strings.ReplaceAll(spec, "0", ""), ".")
			b.add(fmt.Sprintf(width+"s", formatNumber(f, 14)))
			return
		}
		if !strings.Contains(spec, ".") {
			spec += ".6"
		}
		b.add(fmt.Sprintf(spec+string(verb), f))
	case 's':
		text := b.vm.CheckString(arg)
		if spec != "%" {
			text = padded(spec, text)
		}
		b.add(text)
	case 'q':
		text := b.vm.CheckString(arg)
		b.meter.take(b.vm, 4*len(text)) // if all need a backslash
		b.WriteString(quoted(text))
	default:
		b.vm.RaiseError("invalid option '%%%c' to 'format'", verb)
	}
}

// padded is Sprintf(spec+"s", text), with width and precision in bytes.
func padded(spec, text string) string {
	flags := strings.TrimLeft(spec, "%-+ #0")
	width, precision, cut := 0, 0, strings.Contains(flags, ".")
	a, b, _ := strings.Cut(flags, ".")
	_, _ = fmt.Sscan(a, &width)
	_, _ = fmt.Sscan(b, &precision)
	if cut {
		text = text[:min(precision, len(text))]
	}
	if width <= len(text) {
		return text
	}
	space := strings.Repeat(" ", width-len(text))
	if strings.Contains(spec, "-") {
		return text + space
	}
	return space + text
}

// quoted writes a text as %q does.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", "\\\n", "\r", `\r`, "\x00", `\000`).Replace(text) + `"`
}
