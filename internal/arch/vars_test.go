package arch

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

const varsWhy = "state outside of values makes two daemons in one process, or two tests, see each other"

// constantCalls are the calls whose result may stand in a package variable:
// each returns a value that nobody can change.
var constantCalls = []string{
	"errors.New", "fmt.Errorf", "regexp.MustCompile", "netip.MustParsePrefix", "netip.MustParseAddr", "strings.NewReplacer", "template.Must",
}

// varFindings reports package variables that are more than constants in all
// but name: tables, sentinels and the like, written once where they are
// declared, and never again written, grown or handed out by address.
func varFindings(u *unit) {
	declared := make(map[types.Object]bool)
	for _, f := range u.files {
		if u.isTest(f) {
			continue
		}
		for _, d := range f.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, s := range gen.Specs {
				spec := s.(*ast.ValueSpec)
				if spec.Names[0].Name == "_" { // a compile-time check
					continue
				}
				u.declaration(gen, spec)
				for _, name := range spec.Names {
					declared[u.info.Defs[name]] = true
				}
			}
		}
	}
	for _, f := range u.files {
		if !u.isTest(f) {
			u.writes(f, declared)
		}
	}
}

func (u *unit) declaration(gen *ast.GenDecl, spec *ast.ValueSpec) {
	if embedded(gen.Doc) || embedded(spec.Doc) {
		return
	}
	if len(spec.Values) == 0 {
		u.report(spec, "constant", "var %s has no value: it is there to be written; %s", spec.Names[0].Name, varsWhy)
		return
	}
	for _, v := range spec.Values {
		if bad := inconstant(v); bad != nil {
			u.report(spec, "constant", "var %s is made by %s: make it where it is used and pass it on; %s", spec.Names[0].Name, describe(bad), varsWhy)
		}
	}
	for _, name := range spec.Names {
		if name.IsExported() && !strings.HasPrefix(name.Name, "Err") {
			u.report(name, "constant", "var %s is exported: any package could write it; %s", name.Name, varsWhy)
		}
	}
}

func embedded(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// inconstant returns the part of a value that makes it more than a literal.
func inconstant(v ast.Expr) ast.Expr {
	var bad ast.Expr
	ast.Inspect(v, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // its body runs later, and writes are looked for there too
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				bad = n
			}
		case *ast.CallExpr:
			if !constantCall(n) {
				bad = n
			}
		}
		return bad == nil
	})
	return bad
}

func constantCall(call *ast.CallExpr) bool {
	switch fun := call.Fun.(type) {
	case *ast.ArrayType, *ast.MapType: // a conversion: []byte("…")
		return true
	case *ast.SelectorExpr:
		if id, ok := fun.X.(*ast.Ident); ok {
			return slices.Contains(constantCalls, id.Name+"."+fun.Sel.Name)
		}
	}
	return false
}

func describe(e ast.Expr) string {
	if call, ok := e.(*ast.CallExpr); ok {
		return "a call of " + types.ExprString(call.Fun)
	}
	return types.ExprString(e)
}

// writes reports every place that changes a package variable or takes its
// address.
func (u *unit) writes(f *ast.File, declared map[types.Object]bool) {
	touch := func(e ast.Expr, what string) {
		if id := rootIdent(e); id != nil && declared[u.info.Uses[id]] {
			u.report(e, "constant", "%s package variable %s: %s", what, id.Name, varsWhy)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, l := range n.Lhs {
					touch(l, "writes")
				}
			}
		case *ast.IncDecStmt:
			touch(n.X, "writes")
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				touch(n.Key, "writes")
				touch(n.Value, "writes")
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				touch(n.X, "takes the address of")
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && slices.Contains([]string{"delete", "clear", "append", "copy"}, id.Name) && len(n.Args) > 0 {
				touch(n.Args[0], id.Name+"s to")
			}
		}
		return true
	})
}

// rootIdent returns the variable behind x, x.f, x[i], *x, (x).
func rootIdent(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// emptyImporter gives an empty package for every path: names are resolved
// within the package at hand, what comes from elsewhere stays unknown.
type emptyImporter struct{}

func (emptyImporter) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, path[strings.LastIndex(path, "/")+1:])
	p.MarkComplete()
	return p, nil
}

func TestVars_AreConstants(t *testing.T) {
	for _, u := range units(t) {
		u.check(t, emptyImporter{}, false)
		varFindings(u)
		for _, f := range u.found {
			t.Error(f)
		}
	}
}

func TestVars_RuleFails(t *testing.T) {
	bad := []string{
		`var n int`,
		`var n = 1; func f() { n = 2 }`,
		`var n = 1; func f() { n++ }`,
		`var n = 1; func f() *int { return &n }`,
		`var m = map[string]int{}; func f() { m["x"] = 1 }`,
		`var m = map[string]int{"x": 1}; func f() { delete(m, "x") }`,
		`var s = []int{1}; func f() []int { return append(s, 2) }`,
		`var s = []struct{ n int }{{1}}; func f() { s[0].n = 2 }`,
		`var c = &struct{}{}`,
		`var r = make(chan int)`,
		`import "net/http"; var c = &http.Client{}`,
		`import "example.org/prometheus"; var c = prometheus.NewRegistry()`,
		`var Limit = 10`,
		"//arch:constant\nvar cache = make(map[string]int)",
	}
	good := []string{
		`import "errors"; var ErrGone = errors.New("gone")`,
		`var names = [...]string{"", "closing"}; func f(i int) string { return names[i] }`,
		`var table = map[string]int{"a": 1}; func f(k string) int { return table[k] }`,
		`var n = 1; func f() { n := 2; n++; _ = n }`,
		`type I interface{ M() }; type T struct{}; func (*T) M() {}; var _ I = (*T)(nil)`,
		"import _ \"embed\"\n//go:embed x.sql\nvar schema string",
		`import "regexp"; var word = regexp.MustCompile("a+")`,
		`var prefix = []byte("data: ")`,
		"//arch:constant grown once, before anything reads it\nvar cache = make(map[string]int)",
	}
	run := func(code string) []string {
		u := source(t, "internal/example", "code.go", code)
		u.check(t, emptyImporter{}, false)
		varFindings(u)
		return u.found
	}
	for _, code := range bad {
		if got := run(code); len(got) != 1 {
			t.Errorf("%d findings %q, want one, in:\n%s", len(got), got, code)
		}
	}
	for _, code := range good {
		if got := run(code); len(got) != 0 {
			t.Errorf("findings %q, want none, in:\n%s", got, code)
		}
	}
}
