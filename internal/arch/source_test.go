package arch

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// sourceRule is a rule that one file's syntax can break.
type sourceRule struct {
	name  string
	why   string
	check func(r *sourceRule, u *unit, f *ast.File)

	// Shown in TestSource_RulesFail: each of bad gives exactly one finding,
	// each of good none. A file is a test when it mentions *testing.T.
	bad, good []string
}

var sourceRules = []sourceRule{
	{
		name: "no init functions",
		why:  "what runs because a package was imported can be neither ordered, nor configured, nor left out of a test",
		check: func(r *sourceRule, u *unit, f *ast.File) {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					u.report(fn, "", "init function: %s", r.why)
				}
			}
		},
		bad:  []string{`func init() {}`},
		good: []string{`type t struct{}; func (t) init() {}`},
	},
	{
		name: "only main and TestMain exit",
		why:  "os.Exit passes over every deferred close",
		check: func(r *sourceRule, u *unit, f *ast.File) {
			calls(f, func(call *ast.CallExpr, path, name string) {
				if path == "os" && name == "Exit" && u.rel != "cmd/attend" && !u.isTest(f) {
					u.report(call, "", "os.Exit: %s", r.why)
				}
			})
		},
		bad:  []string{`import "os"; func f() { os.Exit(1) }`, `import sys "os"; func f() { sys.Exit(1) }`},
		good: []string{`import "testing"; import "os"; func TestMain(m *testing.M) { os.Exit(m.Run()) } // *testing.T`},
	},
	{
		name: "no shared HTTP client or mux",
		why:  "the process-wide client has no timeout, the process-wide mux takes routes from anyone",
		check: func(r *sourceRule, u *unit, f *ast.File) {
			names := importNames(f)
			ast.Inspect(f, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok || u.isTest(f) {
					return true
				}
				path, name := qualified(names, sel)
				shared := []string{"DefaultClient", "DefaultServeMux", "DefaultTransport", "Get", "Head", "Post", "PostForm", "Handle", "HandleFunc", "ListenAndServe", "ListenAndServeTLS", "Serve"}
				if path == "net/http" && slices.Contains(shared, name) {
					u.report(sel, "", "http.%s: %s", name, r.why)
				}
				return true
			})
		},
		bad:  []string{`import "net/http"; var c = http.DefaultClient`, `import "net/http"; func f() { http.HandleFunc("/", nil) }`},
		good: []string{`import "net/http"; func f(m *http.ServeMux) { m.HandleFunc("/", nil) }`},
	},
	{
		name: "tests wait for conditions",
		why:  "a sleep is too short on a busy machine and too long on a free one; wait for what is meant, or use testing/synctest",
		check: func(r *sourceRule, u *unit, f *ast.File) {
			names := importNames(f)
			for _, path := range names {
				if path == "testing/synctest" {
					return // the bubble's clock
				}
			}
			calls(f, func(call *ast.CallExpr, path, name string) {
				if path == "time" && name == "Sleep" && u.isTest(f) {
					u.report(call, "sleep", "time.Sleep: %s", r.why)
				}
			})
		},
		bad: []string{
			`import ("testing"; "time"); func TestX(t *testing.T) { time.Sleep(1) }`,
			"import (\"testing\"; \"time\"); func TestX(t *testing.T) {\n//arch:sleep\ntime.Sleep(1) }",
		},
		good: []string{
			`import ("testing"; "testing/synctest"; "time"); func TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }`,
			"import (\"testing\"; \"time\"); func TestX(t *testing.T) {\n//arch:sleep the poll of a condition\ntime.Sleep(1) }",
		},
	},
	{
		name: "no test is skipped",
		why:  "a skipped test proves nothing and looks like one that does",
		check: func(r *sourceRule, u *unit, f *ast.File) {
			ast.Inspect(f, func(n ast.Node) bool {
				if fn, ok := n.(*ast.FuncLit); ok && takesRapid(fn) {
					return false // there it draws another sample
				}
				call, ok := n.(*ast.CallExpr)
				if !ok || !u.isTest(f) {
					return true
				}
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
					if id, ok := sel.X.(*ast.Ident); ok && len(id.Name) <= 2 {
						u.report(call, "skip", "%s.%s: %s", id.Name, sel.Sel.Name, r.why)
					}
				}
				return true
			})
		},
		bad: []string{`import "testing"; func TestX(t *testing.T) { t.Skip("later") }`},
		good: []string{
			"import \"testing\"; func TestX(t *testing.T) {\nt.Skip() //arch:skip needs root, and make test runs as root\n}",
			`import ("testing"; "pgregory.net/rapid"); func TestX(t *testing.T) { rapid.Check(t, func(t *rapid.T) { t.Skip() }) }`,
		},
	},
}

// takesRapid reports whether a function's only parameter is a *rapid.T.
func takesRapid(fn *ast.FuncLit) bool {
	params := fn.Type.Params.List
	return len(params) == 1 && types.ExprString(params[0].Type) == "*rapid.T"
}

// calls visits every call of a function of an imported package.
func calls(f *ast.File, visit func(call *ast.CallExpr, importPath, name string)) {
	names := importNames(f)
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if path, name := qualified(names, call.Fun); path != "" {
				visit(call, path, name)
			}
		}
		return true
	})
}

func TestSource_Rules(t *testing.T) {
	all := units(t)
	for i := range sourceRules {
		r := &sourceRules[i]
		t.Run(r.name, func(t *testing.T) {
			for _, u := range all {
				u.found = nil
				for _, f := range u.files {
					r.check(r, u, f)
				}
				for _, found := range u.found {
					t.Error(found)
				}
			}
		})
	}
}

func TestSource_RulesFail(t *testing.T) {
	for i := range sourceRules {
		r := &sourceRules[i]
		run := func(code string) []string {
			name := "code.go"
			if strings.Contains(code, "*testing.T") {
				name = "code_test.go"
			}
			u := source(t, "internal/example", name, code)
			r.check(r, u, u.files[0])
			return u.found
		}
		if len(r.bad) == 0 {
			t.Errorf("%s: no example that breaks it", r.name)
		}
		for _, code := range r.bad {
			if got := run(code); len(got) != 1 {
				t.Errorf("%s: %d findings %q, want one, in:\n%s", r.name, len(got), got, code)
			}
		}
		for _, code := range r.good {
			if got := run(code); len(got) != 0 {
				t.Errorf("%s: findings %q, want none, in:\n%s", r.name, got, code)
			}
		}
	}
}
