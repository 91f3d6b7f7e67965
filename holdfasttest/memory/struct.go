package memory

import (
	"encoding/binary"
	"strconv"

	lua "github.com/yuin/gopher-lua"
)

// The library struct of Redis, for the formats that rate limiters use: B (byte), I (unsigned
// 32 bits, little-endian), c0 (a text as long as the number before says) and c<n>.

// A field is one element of a format.
type field struct {
	code byte
	size int
}

func (m *meter) fields(vm *lua.LState, format string) (all []field) {
	m.take(vm, itemBytes*len(format))
	for i := 0; i < len(format); i++ {
		switch c := format[i]; c {
		case 'B', 'b':
			all = append(all, field{c, 1})
		case 'I', 'i':
			all = append(all, field{c, 4})
		case 'c':
			from := i + 1
			for i+1 < len(format) && format[i+1] >= '0' && format[i+1] <= '9' {
				i++
			}
			n := 1
			if from <= i {
				n, _ = strconv.Atoi(format[from : i+1])
			}
			all = append(all, field{c, n})
		case '<', ' ':
		default:
			vm.RaiseError("invalid format option '%c'", c)
		}
	}
	return all
}

func (m *meter) structPack(vm *lua.LState) int {
	var out []byte
	arg := 2
	for _, f := range m.fields(vm, vm.CheckString(1)) {
		switch f.code {
		case 'B', 'b':
			out = append(out, byte(integral(argNumber(vm, arg))))
		case 'I', 'i':
			out = binary.LittleEndian.AppendUint32(out, uint32(integral(argNumber(vm, arg))))
		case 'c':
			text := vm.CheckString(arg)
			if f.size > 0 {
				if len(text) < f.size {
					vm.ArgError(arg, "string too short")
				}
				text = text[:f.size]
			}
			m.take(vm, len(text))
			out = append(out, text...)
		}
		arg++
	}
	vm.Push(lua.LString(out))
	return 1
}

// argNumber returns an argument as a number, also if it is a text.
func argNumber(vm *lua.LState, arg int) float64 {
	if n, ok := vm.Get(arg).(lua.LNumber); ok {
		return float64(n)
	}
	f, err := strconv.ParseFloat(vm.CheckString(arg), 64)
	if err != nil {
		vm.ArgError(arg, "number expected, got string")
	}
	return f
}

func (m *meter) structUnpack(vm *lua.LState) int {
	data, at, n := vm.CheckString(2), 0, 0
	if vm.GetTop() > 2 {
		at = vm.CheckInt(3) - 1
	}
	last := -1 // the number before a c0
	for _, f := range m.fields(vm, vm.CheckString(1)) {
		size := f.size
		if f.code == 'c' && size == 0 {
			if last < 0 {
				vm.RaiseError("format 'c0' needs a previous size")
			}
			size = last
			vm.Pop(1) // the size is no result
			n--
		}
		if at < 0 || size > len(data)-at {
			vm.ArgError(2, "data string too short")
		}
		part := data[at : at+size]
		at += size
		switch f.code {
		case 'B':
			last = int(part[0])
			vm.Push(lua.LNumber(last))
		case 'b':
			last = int(int8(part[0]))
			vm.Push(lua.LNumber(last))
		case 'I':
			last = int(binary.LittleEndian.Uint32([]byte(part)))
			vm.Push(lua.LNumber(last))
		case 'i':
			last = int(int32(binary.LittleEndian.Uint32([]byte(part))))
			vm.Push(lua.LNumber(last))
		case 'c':
			vm.Push(lua.LString(part))
		}
		n++
	}
	vm.Push(lua.LNumber(at + 1))
	return n + 1
}

func (m *meter) structSize(vm *lua.LState) int {
	size := 0
	for _, f := range m.fields(vm, vm.CheckString(1)) {
		size += f.size
	}
	vm.Push(lua.LNumber(size))
	return 1
}
