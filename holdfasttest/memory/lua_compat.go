package memory

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
)

// This file makes up for differences between gopher-lua and the Lua of Redis.

// correct rewrites statements that gopher-lua compiles wrongly:
//
//   - A multiple assignment evaluates its right side while it assigns, so a, b = b, a does
//     not swap (gopher-lua issue 440).
//   - The numbers of a for loop must not be texts.
func correct(stmts []ast.Stmt) []ast.Stmt {
	for i, s := range stmts {
		walk(reflect.ValueOf(s))
		if a, ok := s.(*ast.AssignStmt); ok && len(a.Lhs) > 1 {
			stmts[i] = inOrder(a)
		}
	}
	return stmts
}

var (
	stmtsType = reflect.TypeFor[[]ast.Stmt]()
	loopType  = reflect.TypeFor[ast.NumberForStmt]()
)

// walk corrects what is inside a part of a program.
func walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			walk(v.Elem())
		}
	case reflect.Slice:
		if v.Type() == stmtsType {
			correct(v.Interface().([]ast.Stmt))
			return
		}
		for i := range v.Len() {
			walk(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walk(v.Field(i))
			}
		}
		if v.Type() == loopType {
			f := v.Addr().Interface().(*ast.NumberForStmt)
			for _, e := range []*ast.Expr{&f.Init, &f.Limit, &f.Step} {
				if *e != nil {
					*e = numeric(*e)
				}
			}
		}
	}
}

// numeric returns the expression tonumber(e), unless e is a number.
func numeric(e ast.Expr) ast.Expr {
	if _, ok := e.(*ast.NumberExpr); ok {
		return e
	}
	call := &ast.FuncCallExpr{Func: at(e, &ast.IdentExpr{Value: "tonumber"}), Args: []ast.Expr{e}, AdjustRet: true}
	return at(e, call)
}

// at gives a new expression the position of another.
func at[E ast.Expr](position ast.PositionHolder, e E) E {
	e.SetLine(position.Line())
	e.SetLastLine(position.LastLine())
	return e
}

// inOrder returns a block that first evaluates everything, and then assigns.
func inOrder(a *ast.AssignStmt) ast.Stmt {
	var names []string
	var values []ast.Expr
	keep := func(e ast.Expr) ast.Expr {
		names, values = append(names, fmt.Sprintf("(temporary %d)", len(names))), append(values, e)
		return at(e, &ast.IdentExpr{Value: names[len(names)-1]})
	}
	targets := make([]ast.Expr, len(a.Lhs))
	for i, e := range a.Lhs {
		targets[i] = e
		if get, ok := e.(*ast.AttrGetExpr); ok {
			object, key := keep(get.Object), get.Key
			if _, constant := key.(ast.ConstExpr); !constant {
				key = keep(key)
			}
			targets[i] = at(e, &ast.AttrGetExpr{Object: object, Key: key})
		}
	}
	results := make([]ast.Expr, len(targets))
	for i := range targets {
		name := fmt.Sprintf("(value %d)", i)
		names = append(names, name)
		results[i] = at(a, &ast.IdentExpr{Value: name})
	}
	block := &ast.DoBlockStmt{Stmts: []ast.Stmt{&ast.LocalAssignStmt{Names: names, Exprs: append(values, a.Rhs...)}}}
	for i := range targets {
		block.Stmts = append(block.Stmts, &ast.AssignStmt{Lhs: targets[i : i+1], Rhs: results[i : i+1]})
	}
	for _, s := range append(block.Stmts, block) {
		s.SetLine(a.Line())
		s.SetLastLine(a.LastLine())
	}
	return block
}

// toNumber is tonumber: texts may have an exponent, and be infinite.
func toNumber(vm *lua.LState) int {
	base := vm.OptInt(2, 10)
	n := lua.LNil
	switch v := vm.CheckAny(1).(type) {
	case lua.LNumber:
		n = v
	case lua.LString:
		text := strings.TrimSpace(string(v))
		if base != 10 {
			if i, err := strconv.ParseInt(text, base, 64); err == nil {
				n = lua.LNumber(i)
			}
		} else if f, ok := parseNumber(text); ok {
			n = lua.LNumber(f)
		}
	}
	vm.Push(n)
	return 1
}

// parseNumber parses a number as the C function strtod does.
func parseNumber(text string) (float64, bool) {
	digits := strings.TrimPrefix(strings.TrimPrefix(text, "-"), "+")
	if hex, ok := strings.CutPrefix(strings.ToLower(digits), "0x"); ok {
		n, err := strconv.ParseUint(hex, 16, 64)
		if strings.HasPrefix(text, "-") {
			return -float64(n), err == nil
		}
		return float64(n), err == nil
	}
	if strings.ContainsAny(text, "_pP") {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil || math.IsInf(f, 0)
}

// toString is tostring: numbers have 14 digits.
func toString(vm *lua.LState) int {
	v := vm.CheckAny(1)
	if n, ok := v.(lua.LNumber); ok {
		vm.Push(lua.LString(formatNumber(float64(n), 14)))
		return 1
	}
	vm.Push(vm.ToStringMeta(v))
	return 1
}

// formatNumber writes a number with at most so many digits, as printf("%.*g") does.
func formatNumber(f float64, digits int) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	default:
		return strconv.FormatFloat(f, 'g', digits, 64)
	}
}
