package memory

import (
	"math/rand/v2"

	lua "github.com/yuin/gopher-lua"
)

// The memory that a script takes, about, in bytes. The compiler lets a script call set, made
// and index where it would take memory, see correct.
const (
	tableBytes = 2048  // of a table with a few fields
	fieldBytes = 256   // of a field of a table
	itemBytes  = 64    // of an element of a table
	callBytes  = 128   // of an argument of a command that is stored
	errorBytes = 65536 // of an error: the interpreter describes the stack

	replySteps = 4 // of a value in the reply of a script
)

// readOnly returns a table that shows the fields of another and cannot be changed.
func (in *interpreter) readOnly(of *lua.LTable) *lua.LTable {
	t, meta := in.vm.NewTable(), in.vm.NewTable()
	meta.RawSetString("__index", of)
	meta.RawSetString("__newindex", in.vm.NewFunction(func(vm *lua.LState) int { refuse(vm); return 0 }))
	meta.RawSetString("__metatable", lua.LFalse)
	t.Metatable = meta
	in.fixed[t] = true
	return t
}

func refuse(vm *lua.LState) { vm.RaiseError("Attempt to modify a readonly table") }

// changeable returns the first argument, a table that a script may change.
func (in *interpreter) changeable(vm *lua.LState) *lua.LTable {
	t := vm.CheckTable(1)
	if in.fixed[t] {
		refuse(vm)
	}
	return t
}

// changing returns a function of a library that changes its first argument.
func (in *interpreter) changing(f lua.LGFunction) lua.LGFunction {
	return func(vm *lua.LState) int {
		t, key := in.changeable(vm), lua.LNil
		if vm.GetTop() == 3 { // table.insert with a position
			key = vm.Get(2)
		}
		in.grow(vm, t, key)
		return f(vm)
	}
}

// catching returns pcall or xpcall.
func (in *interpreter) catching(f lua.LGFunction) lua.LGFunction {
	return func(vm *lua.LState) int {
		n := f(vm)
		if n > 0 && vm.Get(-n) == lua.LFalse {
			in.take(vm, errorBytes)
		}
		return n
	}
}

// grow counts the memory of a new field.
func (in *interpreter) grow(vm *lua.LState, t *lua.LTable, key lua.LValue) {
	n, ok := key.(lua.LNumber)
	if !ok || n < 1 || n >= lua.LNumber(lua.MaxArrayIndex) {
		in.take(vm, fieldBytes)
		return
	}
	// It is an element of an array, which has no gaps.
	gap := 0
	if n > 1 && t.RawGetInt(int(n)-1) == lua.LNil {
		gap = max(int(n)-t.MaxN(), 0)
	}
	in.take(vm, itemBytes*(gap+1))
}

// set is an assignment to a field of a table.
func (in *interpreter) set(vm *lua.LState) int {
	t, key, v := vm.Get(1), vm.Get(2), vm.Get(3)
	if t, ok := t.(*lua.LTable); ok {
		in.grow(vm, t, key)
	}
	vm.SetTable(t, key, v)
	return 0
}

// made counts a table that a script has just made. It has so many fields besides its elements.
func (in *interpreter) made(vm *lua.LState) int {
	t := vm.CheckTable(1)
	in.take(vm, tableBytes+fieldBytes*vm.CheckInt(2)+itemBytes*t.Len())
	vm.SetTop(1)
	return 1
}

// index checks the key of a field in a constructor of a table.
func (in *interpreter) index(vm *lua.LState) int {
	if n, ok := vm.Get(1).(lua.LNumber); ok && n > 0 && n < lua.LNumber(lua.MaxArrayIndex) {
		in.take(vm, itemBytes*int(n))
	}
	vm.SetTop(1)
	return 1
}

func (in *interpreter) rawSet(vm *lua.LState) int {
	t := in.changeable(vm)
	key, v := vm.CheckAny(2), vm.CheckAny(3)
	in.grow(vm, t, key)
	vm.RawSet(t, key, v)
	vm.SetTop(1)
	return 1
}

// setMetatable is setmetatable. That of gopher-lua also sets the metatable of all numbers.
func (in *interpreter) setMetatable(vm *lua.LState) int {
	t := in.changeable(vm)
	vm.CheckTypes(2, lua.LTNil, lua.LTTable)
	if vm.GetMetaField(t, "__metatable") != lua.LNil {
		vm.RaiseError("cannot change a protected metatable")
	}
	vm.SetMetatable(t, vm.Get(2))
	vm.SetTop(1)
	return 1
}

func (in *interpreter) unpack(vm *lua.LState) int {
	t := vm.CheckTable(1)
	from, to := vm.OptInt(2, 1), t.Len()
	if vm.Get(3) != lua.LNil {
		to = vm.CheckInt(3)
	}
	if from > to {
		return 0
	}
	if uint(to)-uint(from) >= maxResults {
		vm.RaiseError("too many results to unpack")
	}
	n := to - from + 1
	in.take(vm, itemBytes*n)
	for i := range n {
		vm.Push(t.RawGetInt(from + i))
	}
	return n
}

// maxResults is less than what fits on the stack of the interpreter.
const maxResults = 4096

// random is math.random.
func (in *interpreter) random(vm *lua.LState) int {
	r := rand.New(&in.seed)
	low, high := int64(1), int64(0)
	switch vm.GetTop() {
	case 0:
		vm.Push(lua.LNumber(r.Float64()))
		return 1
	case 1:
		high = vm.CheckInt64(1)
	default:
		low, high = vm.CheckInt64(1), vm.CheckInt64(2)
	}
	if low > high {
		vm.ArgError(vm.GetTop(), "interval is empty")
	}
	vm.Push(lua.LNumber(low + int64(r.Float64()*(float64(high)-float64(low)+1))))
	return 1
}

func (in *interpreter) randomSeed(vm *lua.LState) int {
	in.seed.Seed(uint64(vm.CheckInt64(1)), 0)
	return 0
}
