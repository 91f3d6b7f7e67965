package memory

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// An interpreter runs scripts, one at a time. It has what scripts of Redis can use, as far as
// those of Holdfast do. A script cannot change what the next one finds: its globals and all
// libraries are read-only.
type interpreter struct {
	*meter
	vm      *lua.LState
	env     *lua.LTable // the globals that a script sees
	globals *lua.LTable // where env finds them
	fixed   map[*lua.LTable]bool
	seed    rand.PCG
	tx      *tx // of the script that runs
}

// baseNames are the functions of the base library that scripts have. What compiles a text, and
// what changes the environment of a function, is missing.
var baseNames = strings.Fields("assert getmetatable ipairs next pairs rawequal rawget select type _VERSION")

func newInterpreter(m *meter) *interpreter {
	vm := lua.NewState(lua.Options{SkipOpenLibs: true})
	in := &interpreter{meter: m, vm: vm, globals: vm.NewTable(), fixed: make(map[*lua.LTable]bool)}
	vm.SetContext(m)
	lib := func(open lua.LGFunction, more map[string]lua.LGFunction) *lua.LTable {
		vm.Push(vm.NewFunction(open))
		vm.Call(0, 1)
		t := vm.SetFuncs(vm.CheckTable(-1), more)
		vm.SetTop(0)
		return t
	}
	base := lib(lua.OpenBase, nil)
	for _, name := range baseNames {
		in.globals.RawSetString(name, base.RawGetString(name))
	}
	of := func(name string) lua.LGFunction { return base.RawGetString(name).(*lua.LFunction).GFunction }
	raise := of("error")
	vm.SetFuncs(in.globals, map[string]lua.LGFunction{
		"error": func(vm *lua.LState) int {
			in.take(vm, 4*len(vm.ToString(1))) // the interpreter copies the text
			return raise(vm)
		},
		"pcall": in.catching(of("pcall")), "xpcall": in.catching(of("xpcall")),
		"collectgarbage": func(vm *lua.LState) int { vm.Push(lua.LNumber(0)); return 1 },
		"rawset":         in.rawSet, "setmetatable": in.setMetatable, "tonumber": toNumber, "tostring": toString, "unpack": in.unpack,
		setName: in.set, madeName: in.made, indexName: in.index, concatName: m.concat, numberName: toNumber,
	})
	table := lib(lua.OpenTable, map[string]lua.LGFunction{"concat": m.tableConcat})
	for _, name := range []string{"insert", "remove", "sort"} {
		table.RawSetString(name, vm.NewFunction(in.changing(table.RawGetString(name).(*lua.LFunction).GFunction)))
	}
	text := lib(lua.OpenString, m.stringFuncs())
	numbers := lib(lua.OpenMath, map[string]lua.LGFunction{"random": in.random, "randomseed": in.randomSeed})
	numbers.RawSetString("huge", lua.LNumber(math.Inf(1)))
	for name, t := range map[string]*lua.LTable{
		lua.TabLibName: table, lua.StringLibName: text, lua.MathLibName: numbers, "redis": vm.SetFuncs(vm.NewTable(), in.redisFuncs()),
		"struct": vm.SetFuncs(vm.NewTable(), map[string]lua.LGFunction{"pack": m.structPack, "unpack": m.structUnpack, "size": m.structSize}),
	} {
		in.globals.RawSetString(name, in.readOnly(t))
	}
	ofTexts := vm.NewTable()
	ofTexts.RawSetString("__index", text)
	ofTexts.RawSetString("__metatable", lua.LFalse)
	vm.SetMetatable(lua.LString(""), ofTexts)
	in.env = in.readOnly(in.globals)
	in.globals.RawSetString("_G", in.env)
	in.globals.Metatable = vm.SetFuncs(vm.NewTable(), map[string]lua.LGFunction{"__index": func(vm *lua.LState) int {
		vm.RaiseError("Script attempted to access nonexistent global variable '%.128s'", vm.Get(2).String())
		return 0
	}})
	return in
}

// compile returns a script that can be run.
func (s *Server) compile(hash, source string) (p *lua.FunctionProto, err error) {
	if p, ok := s.protos[hash]; ok {
		return p, nil
	}
	if p, err = compile(source); err != nil {
		return nil, failure("ERR Error compiling script (new function): " + oneLine(err))
	}
	s.protos[hash] = p
	return p, nil
}

func compile(source string) (p *lua.FunctionProto, err error) {
	defer rescue(&err)
	if len(source) > maxSource {
		return nil, fmt.Errorf("user_script: the script has more than %d bytes", maxSource)
	}
	chunk, err := parse.Parse(strings.NewReader(source), "user_script")
	if err != nil {
		return nil, err
	}
	if err := correct(chunk); err != nil {
		return nil, err
	}
	if p, err = lua.Compile(chunk, "user_script"); err == nil {
		p.IsVarArg &^= lua.VarArgNeedsArg // only functions have a table of their arguments
	}
	return p, err
}

// oneLine returns the text of an error on one line, without its end if it is long.
func oneLine(err error) string {
	text := err.Error()
	return strings.Join(strings.Fields(text[:min(len(text), 4096)]), " ")
}

// eval runs a script.
func (t *tx) eval(hash, source string, keys, args []string) (r any, err error) {
	p, err := t.s.compile(hash, source)
	if err != nil {
		return nil, err
	}
	defer func() {
		if errors.Is(err, errInternal) {
			t.s.lua = nil
		}
	}()
	defer rescue(&err)
	if t.s.lua == nil {
		t.s.lua = newInterpreter(&t.s.meter)
	}
	in := t.s.lua
	in.tx = t
	in.seed.Seed(0, 0) // as Redis does, so that a script does the same each time
	defer in.vm.SetTop(0)
	db := t.db
	t.script = true
	defer func() { t.db, t.script = db, false }() // SELECT is for the rest of the script
	in.globals.RawSetString("KEYS", stringTable(in.vm, keys))
	in.globals.RawSetString("ARGV", stringTable(in.vm, args))
	f := in.vm.NewFunctionFromProto(p)
	f.Env = in.env
	in.vm.Push(f)
	if err := in.vm.PCall(0, 1, nil); err != nil {
		return nil, raised(err)
	}
	return in.reply(in.vm.Get(-1), 0)
}

func (in *interpreter) redisFuncs() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"call":         func(vm *lua.LState) int { return in.call(true) },
		"pcall":        func(vm *lua.LState) int { return in.call(false) },
		"error_reply":  func(vm *lua.LState) int { return one(vm, "err", vm.CheckString(1)) },
		"status_reply": func(vm *lua.LState) int { return one(vm, "ok", vm.CheckString(1)) },
		"sha1hex": func(vm *lua.LState) int {
			text := vm.CheckString(1)
			in.take(vm, len(text))
			vm.Push(lua.LString(sha1Hex(text)))
			return 1
		},
		"replicate_commands": func(vm *lua.LState) int { vm.Push(lua.LTrue); return 1 },
		"log":                func(*lua.LState) int { return 0 },
	}
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
func (in *interpreter) call(raise bool) int {
	vm := in.vm
	args := make([]string, vm.GetTop())
	in.take(vm, callBytes*(len(args)+1))
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
		r, err = in.tx.do(args)
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
	vm.Push(in.value(r))
	return 1
}

// value converts the reply of a command for a script.
func (in *interpreter) value(r any) lua.LValue {
	switch r := r.(type) {
	case int64:
		return lua.LNumber(r)
	case string:
		return lua.LString(r)
	case status:
		in.take(in.vm, tableBytes)
		t := in.vm.NewTable()
		t.RawSetString("ok", lua.LString(r))
		return t
	case pairs:
		return in.value([]any(r))
	case []any:
		in.take(in.vm, tableBytes+itemBytes*len(r))
		t := in.vm.CreateTable(len(r), 0)
		for i, e := range r {
			t.RawSetInt(i+1, in.value(e))
		}
		return t
	default:
		return lua.LFalse
	}
}

// errNested is the error reply for a table that is nested too deeply, or contains itself.
const errNested = failure("ERR reached lua stack limit")

// reply converts the result of a script. A text counts each time that the reply has it.
func (in *interpreter) reply(v lua.LValue, level int) (any, error) {
	text, _ := v.(lua.LString)
	if !in.use(replySteps + int64(len(text)/stepBytes)) {
		return nil, failure("ERR " + in.err.Error())
	}
	if level > maxLevels {
		return nil, errNested
	}
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
			r, err := in.reply(e, level+1)
			switch {
			case in.err != nil || errors.Is(err, errNested):
				return nil, err
			case err != nil:
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
