package memory

import (
	"errors"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// newVM returns an interpreter with what scripts of Redis can use, as far as those of
// Holdfast do.
func newVM() *lua.LState {
	vm := lua.NewState(lua.Options{SkipOpenLibs: true})
	for _, lib := range []struct {
		name string
		open lua.LGFunction
	}{{lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}, {lua.StringLibName, lua.OpenString}, {lua.MathLibName, lua.OpenMath}} {
		vm.Push(vm.NewFunction(lib.open))
		vm.Push(lua.LString(lib.name))
		vm.Call(1, 0)
	}
	for _, name := range []string{"print", "dofile", "loadfile", "module", "require"} {
		vm.SetGlobal(name, lua.LNil)
	}
	vm.SetGlobal("tonumber", vm.NewFunction(toNumber))
	vm.SetGlobal("tostring", vm.NewFunction(toString))
	vm.GetGlobal(lua.MathLibName).(*lua.LTable).RawSetString("huge", lua.LNumber(math.Inf(1)))
	vm.SetGlobal("struct", vm.SetFuncs(vm.NewTable(), map[string]lua.LGFunction{"pack": structPack, "unpack": structUnpack, "size": structSize}))
	return vm
}

// compile returns a script that can be run.
func (s *Server) compile(hash, source string) (*lua.FunctionProto, error) {
	if p, ok := s.protos[hash]; ok {
		return p, nil
	}
	chunk, err := parse.Parse(strings.NewReader(source), "user_script")
	if err != nil {
		return nil, failure("ERR Error compiling script (new function): " + oneLine(err))
	}
	p, err := lua.Compile(correct(chunk), "user_script")
	if err != nil {
		return nil, failure("ERR Error compiling script (new function): " + oneLine(err))
	}
	s.protos[hash] = p
	return p, nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// eval runs a script.
func (t *tx) eval(hash, source string, keys, args []string) (any, error) {
	p, err := t.s.compile(hash, source)
	if err != nil {
		return nil, err
	}
	vm := t.s.vm
	defer vm.SetTop(0)
	db := t.db
	t.script = true
	defer func() { t.db, t.script = db, false }() // SELECT is for the rest of the script
	vm.SetGlobal("KEYS", stringTable(vm, keys))
	vm.SetGlobal("ARGV", stringTable(vm, args))
	vm.SetGlobal("redis", vm.SetFuncs(vm.NewTable(), map[string]lua.LGFunction{
		"call":         func(vm *lua.LState) int { return t.call(vm, true) },
		"pcall":        func(vm *lua.LState) int { return t.call(vm, false) },
		"error_reply":  func(vm *lua.LState) int { return one(vm, "err", vm.CheckString(1)) },
		"status_reply": func(vm *lua.LState) int { return one(vm, "ok", vm.CheckString(1)) },
		"sha1hex": func(vm *lua.LState) int {
			vm.Push(lua.LString(sha1Hex(vm.CheckString(1))))
			return 1
		},
		"replicate_commands": func(vm *lua.LState) int { vm.Push(lua.LTrue); return 1 },
		"log":                func(*lua.LState) int { return 0 },
	}))
	vm.Push(vm.NewFunctionFromProto(p))
	if err := vm.PCall(0, 1, nil); err != nil {
		return nil, raised(err)
	}
	return reply(vm.Get(-1))
}

// raised returns the error reply for an error of a script.
func raised(err error) error {
	var e *lua.ApiError
	if errors.As(err, &e) {
		if t, ok := e.Object.(*lua.LTable); ok {
			if text, ok := t.RawGetString("err").(lua.LString); ok {
				return failure(text)
			}
		}
	}
	return failure("ERR " + oneLine(err))
}

func one(vm *lua.LState, field, text string) int {
	t := vm.NewTable()
	t.RawSetString(field, lua.LString(text))
	vm.Push(t)
	return 1
}

func stringTable(vm *lua.LState, all []string) *lua.LTable {
	t := vm.CreateTable(len(all), 0)
	for _, s := range all {
		t.Append(lua.LString(s))
	}
	return t
}

// call runs a command of a script.
func (t *tx) call(vm *lua.LState, raise bool) int {
	args := make([]string, vm.GetTop())
	var err error
	if len(args) == 0 {
		err = failure("ERR Please specify at least one argument for this redis.call() call")
	}
	for i := range args {
		switch v := vm.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(v)
		case lua.LNumber:
			args[i] = formatNumber(float64(v), 17)
		default:
			err = failure("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	var r any
	if err == nil {
		r, err = t.do(args)
	}
	if err != nil {
		e := vm.NewTable()
		e.RawSetString("err", lua.LString(err.Error()))
		if raise {
			vm.Error(e, 1)
		}
		vm.Push(e)
		return 1
	}
	vm.Push(value(vm, r))
	return 1
}

// value converts the reply of a command for a script.
func value(vm *lua.LState, r any) lua.LValue {
	switch r := r.(type) {
	case int64:
		return lua.LNumber(r)
	case string:
		return lua.LString(r)
	case status:
		t := vm.NewTable()
		t.RawSetString("ok", lua.LString(r))
		return t
	case pairs:
		return value(vm, []any(r))
	case []any:
		t := vm.CreateTable(len(r), 0)
		for i, e := range r {
			t.RawSetInt(i+1, value(vm, e))
		}
		return t
	default:
		return lua.LFalse
	}
}

// reply converts the result of a script.
func reply(v lua.LValue) (any, error) {
	switch v := v.(type) {
	case lua.LString:
		return string(v), nil
	case lua.LNumber:
		return integral(float64(v)), nil
	case lua.LBool:
		if v {
			return int64(1), nil
		}
		return nil, nil
	case *lua.LTable:
		if e, ok := v.RawGetString("err").(lua.LString); ok {
			return nil, failure(e)
		}
		if s, ok := v.RawGetString("ok").(lua.LString); ok {
			return status(s), nil
		}
		all := []any{}
		for i := 1; ; i++ {
			e := v.RawGetInt(i)
			if e == lua.LNil {
				return all, nil
			}
			r, err := reply(e)
			if err != nil {
				r = err
			}
			all = append(all, r)
		}
	default:
		return nil, nil
	}
}

// integral returns a number without its fraction, as C converts it.
func integral(f float64) int64 {
	if math.IsNaN(f) || f >= math.MaxInt64 || f <= math.MinInt64 {
		return math.MinInt64
	}
	return int64(f)
}
