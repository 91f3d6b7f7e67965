package memory

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
)

// This file makes up for differences between gopher-lua and the Lua of Redis.

// The functions that corrected scripts call. No script can use these names itself, except by _G.
const (
	setName    = "(set)"
	madeName   = "(made)"
	indexName  = "(index)"
	concatName = "(concat)"
	numberName = "(tonumber)"
)

// correct rewrites what gopher-lua compiles wrongly:
//
//   - A multiple assignment evaluates its right side while it assigns, so a, b = b, a does
//     not swap (gopher-lua issue 440).
//   - The numbers of a for loop must not be texts.
//   - What takes memory must be counted: assignments to fields, tables, and concatenations.
//
// It returns an error if the program is nested too deeply. Compiling it could then overflow the
// stack of the process.
func correct(stmts []ast.Stmt) error {
	var c corrector
	c.stmts(stmts, 0)
	if c.deep {
		return errors.New("user_script: chunk has too many syntax levels")
	}
	return nil
}

type corrector struct{ deep bool }

func (c *corrector) stmts(stmts []ast.Stmt, level int) {
	for i, s := range stmts {
		c.walk(reflect.ValueOf(s), level)
		switch s := s.(type) {
		case *ast.AssignStmt:
			if len(s.Lhs) > 1 {
				stmts[i] = inOrder(s)
			} else {
				stmts[i] = assigned(s)
			}
		case *ast.FuncDefStmt:
			stmts[i] = defined(s)
		}
	}
}

var (
	stmtsType = reflect.TypeFor[[]ast.Stmt]()
	loopType  = reflect.TypeFor[ast.NumberForStmt]()
)

// walk corrects what is inside a part of a program.
func (c *corrector) walk(v reflect.Value, level int) {
	if level > maxLevels {
		c.deep = true
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		if e, ok := v.Interface().(*ast.StringConcatOpExpr); ok {
			v.Set(reflect.ValueOf(c.joined(e, level)))
			return
		}
		c.walk(v.Elem(), level)
		if t, ok := v.Interface().(*ast.TableExpr); ok {
			v.Set(reflect.ValueOf(counted(t)))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			c.walk(v.Elem(), level+1)
		}
	case reflect.Slice:
		if v.Type() == stmtsType {
			c.stmts(v.Interface().([]ast.Stmt), level)
			return
		}
		for i := range v.Len() {
			c.walk(v.Index(i), level)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				c.walk(v.Field(i), level)
			}
		}
		if v.Type() == loopType {
			f := v.Addr().Interface().(*ast.NumberForStmt)
			for _, e := range []*ast.Expr{&f.Init, &f.Limit, &f.Step} {
				if _, number := (*e).(*ast.NumberExpr); *e != nil && !number {
					*e = called(numberName, *e)
				}
			}
		}
	}
}

// called returns a call with one result. Its first argument has its position.
func called(name string, args ...ast.Expr) ast.Expr {
	return at(args[0], &ast.FuncCallExpr{Func: at(args[0], &ast.IdentExpr{Value: name}), Args: args, AdjustRet: true})
}

// joined returns the call that concatenates, for a .. b .. c.
func (c *corrector) joined(e *ast.StringConcatOpExpr, level int) ast.Expr {
	args := []ast.Expr{e.Lhs}
	rest := e.Rhs
	for {
		next, ok := rest.(*ast.StringConcatOpExpr)
		if !ok {
			break
		}
		args, rest = append(args, next.Lhs), next.Rhs
	}
	args = append(args, rest)
	c.walk(reflect.ValueOf(args), level+1)
	return called(concatName, args...)
}

// counted returns the call that counts a table.
func counted(t *ast.TableExpr) ast.Expr {
	fields := 0
	for _, f := range t.Fields {
		if f.Key == nil {
			continue
		}
		fields++
		if _, text := f.Key.(*ast.StringExpr); !text {
			f.Key = called(indexName, f.Key)
		}
	}
	return called(madeName, t, at(t, &ast.NumberExpr{Value: strconv.Itoa(fields)}))
}

// assigned returns a statement with one target that counts a new field.
func assigned(a *ast.AssignStmt) ast.Stmt {
	get, ok := a.Lhs[0].(*ast.AttrGetExpr)
	if !ok {
		return a
	}
	s := &ast.FuncCallStmt{Expr: called(setName, append([]ast.Expr{get.Object, get.Key}, a.Rhs...)...)}
	s.SetLine(a.Line())
	s.SetLastLine(a.LastLine())
	return s
}

// defined is assigned for function a.b() and function a:b().
func defined(f *ast.FuncDefStmt) ast.Stmt {
	target, of := f.Name.Func, f.Func
	if f.Name.Receiver != nil {
		target = at(f.Name.Receiver, &ast.AttrGetExpr{Object: f.Name.Receiver, Key: at(f.Name.Receiver, &ast.StringExpr{Value: f.Name.Method})})
		of.ParList.Names = append([]string{"self"}, of.ParList.Names...)
	}
	a := &ast.AssignStmt{Lhs: []ast.Expr{target}, Rhs: []ast.Expr{of}}
	a.SetLine(f.Line())
	a.SetLastLine(f.LastLine())
	return assigned(a)
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
		single := &ast.AssignStmt{Lhs: targets[i : i+1], Rhs: results[i : i+1]}
		single.SetLine(a.Line())
		single.SetLastLine(a.LastLine())
		block.Stmts = append(block.Stmts, assigned(single))
	}
	for _, s := range []ast.Stmt{block, block.Stmts[0]} {
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
