package arch

import (
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// purePackages hold the rules: the same records give the same steps, on every
// machine and in every replay.
var purePackages = []string{"internal/engine", "internal/field"}

const (
	waysToWait = "the rules do not wait or run beside themselves: the runner does, and hands the outcome in as a record"
	clockWhy   = "time is an input: it comes with the record, or as a value from the runner"
	orderWhy   = "the order of a map differs from run to run, so replay would too: sort the keys right after, or mark the line //arch:sorted and say why no order can show"
)

// clockNames are the functions of package time that read or wait for a clock.
var clockNames = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// pureFindings checks a type-checked unit; tests are left out.
func pureFindings(u *unit) {
	for _, f := range u.files {
		if u.isTest(f) {
			continue
		}
		names := importNames(f)
		sortedKeys := mapRangesSortedAfter(f, names)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				u.report(n, "", "go statement: %s", waysToWait)
			case *ast.SelectStmt:
				u.report(n, "", "select: %s", waysToWait)
				return false // its channels need no finding of their own
			case *ast.ChanType:
				u.report(n, "", "channel: %s", waysToWait)
			case *ast.SelectorExpr:
				u.impureName(names, n)
			case *ast.RangeStmt:
				if u.isMap(n.X) && n.Key != nil && !sortedKeys[n] {
					u.report(n, "sorted", "range over a map: %s", orderWhy)
				}
			case *ast.CallExpr:
				return !u.mapIterator(names, n)
			}
			return true
		})
	}
}

// impureName reports clocks, random numbers and output.
func (u *unit) impureName(names map[string]string, sel *ast.SelectorExpr) {
	switch path, name := qualified(names, sel); {
	case path == "time" && slices.Contains(clockNames, name):
		u.report(sel, "", "time.%s: %s", name, clockWhy)
	case strings.HasPrefix(path, "math/rand") || path == "crypto/rand":
		u.report(sel, "", "%s.%s: what is drawn differs in replay: derive it from ids (engine.Jitter)", path, name)
	case path == "fmt" && (strings.HasPrefix(name, "Print") || strings.HasPrefix(name, "Scan")):
		u.report(sel, "", "fmt.%s: the rules do no IO", name)
	}
}

func (u *unit) isMap(e ast.Expr) bool {
	tv, ok := u.info.Types[e]
	if !ok || tv.Type == nil {
		return false
	}
	_, ok = tv.Type.Underlying().(*types.Map)
	return ok
}

// mapIterator reports maps.Keys, maps.Values and maps.All, unless they go
// straight into slices.Sorted and its like; then it returns true, and the
// call's inside needs no look.
func (u *unit) mapIterator(names map[string]string, call *ast.CallExpr) bool {
	path, name := qualified(names, call.Fun)
	if path == "slices" && strings.HasPrefix(name, "Sorted") {
		return true
	}
	if path == "maps" && slices.Contains([]string{"Keys", "Values", "All"}, name) {
		u.report(call, "sorted", "maps.%s: %s", name, orderWhy)
	}
	return false
}

// mapRangesSortedAfter finds loops that only gather into a slice which the
// next statement sorts.
func mapRangesSortedAfter(f *ast.File, names map[string]string) map[*ast.RangeStmt]bool {
	ok := make(map[*ast.RangeStmt]bool)
	visit := func(list []ast.Stmt) {
		for i := 0; i+1 < len(list); i++ {
			loop, isLoop := list[i].(*ast.RangeStmt)
			if !isLoop {
				continue
			}
			sorted := sortedVariable(list[i+1], names)
			ok[loop] = sorted != "" && onlyAppendsTo(loop.Body, sorted)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			visit(n.List)
		case *ast.CaseClause:
			visit(n.Body)
		}
		return true
	})
	return ok
}

// sortedVariable returns the x of slices.Sort(x) and its like.
func sortedVariable(s ast.Stmt, names map[string]string) string {
	expr, ok := s.(*ast.ExprStmt)
	if !ok {
		return ""
	}
	call, ok := expr.X.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return ""
	}
	path, name := qualified(names, call.Fun)
	if path == "slices" && strings.HasPrefix(name, "Sort") || path == "sort" && name != "Search" {
		return types.ExprString(call.Args[0])
	}
	return ""
}

// onlyAppendsTo reports whether every write of a loop's body is an append to
// the variable: ifs and continues may stand around it.
func onlyAppendsTo(body *ast.BlockStmt, variable string) bool {
	ok := true
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			call, isCall := n.Rhs[0].(*ast.CallExpr)
			appends := isCall && types.ExprString(call.Fun) == "append" && types.ExprString(call.Args[0]) == variable
			local := n.Tok == token.DEFINE
			ok = ok && (local || appends && types.ExprString(n.Lhs[0]) == variable)
		case *ast.IncDecStmt, *ast.ReturnStmt, *ast.ExprStmt, *ast.DeferStmt:
			ok = false
		case *ast.BranchStmt:
			ok = ok && n.Tok == token.CONTINUE
		}
		return ok
	})
	return ok
}

// stdImporter reads the export data of the standard library's packages that
// the rules may import, and of those that the examples below do.
func stdImporter(t testing.TB) types.Importer {
	t.Helper()
	args := append([]string{"-export", "-deps", "time", "math/rand/v2"}, pureImports...)
	files := make(map[string]string)
	for _, p := range goList(t, args...) {
		files[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}

func TestPure_Packages(t *testing.T) {
	seen := 0
	for _, p := range goList(t, "./internal/...") {
		if !slices.Contains(purePackages, p.rel()) {
			continue
		}
		seen++
		u := parseUnit(t, p.rel(), p.GoFiles, func(name string) any { return readFile(t, filepath.Join(p.Dir, name)) })
		u.check(t, stdImporter(t), true)
		pureFindings(u)
		for _, f := range u.found {
			t.Error(f)
		}
	}
	if seen == 0 {
		t.Fatal("no pure package found: the rule looked at nothing")
	}
}

func TestPure_RuleFails(t *testing.T) {
	bad := []string{
		`func f() { go f() }`,
		`func f() { select {} }`,
		`var c chan int`,
		`func f(c <-chan int) {}`,
		`import "time"; func f() time.Time { return time.Now() }`,
		`import clock "time"; var now = clock.Now`,
		`import "time"; func f() { time.Sleep(1) }`,
		`import "math/rand/v2"; func f() int { return rand.Int() }`,
		`import "fmt"; func f() { fmt.Println("x") }`,
		`func f(m map[string]int) (s []string) { for k := range m { s = append(s, k) }; return s }`,
		`type set map[string]bool; func f(m set) bool { for k := range m { return k == "" }; return false }`,
		`import "maps"; func f(m map[string]int) { for range maps.Keys(m) {} }`,
		`import ("maps"; "slices"); func f(m map[string]int) []string { return slices.Collect(maps.Keys(m)) }`,
		// Sorted, but the loop does something else as well.
		`import "slices"; func f(m map[string]int) (last string) { var s []string; for k := range m { s = append(s, k); last = k }; slices.Sort(s); return last }`,
		// Sorted, but another variable.
		`import "slices"; func f(m map[string]int, o []string) (s []string) { for k := range m { s = append(s, k) }; slices.Sort(o); return s }`,
		"func f(m map[string]int) (n int) {\n//arch:sorted\nfor _, v := range m { n += v }; return n }",
	}
	good := []string{
		`import "slices"; func f(m map[string]int) (s []string) { for k := range m { s = append(s, k) }; slices.Sort(s); return s }`,
		`import "sort"; func f(m map[string]int) (s []string) { for k, v := range m { if v == 0 { continue }; s = append(s, k) }; sort.Strings(s); return s }`,
		`import ("maps"; "slices"); func f(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }`,
		`func f(s []int) (n int) { for _, v := range s { n += v }; return n }`,
		`func f(m map[string]int) (n int) { for range m { n++ }; return n }`,
		`import "time"; const d = 3 * time.Second`,
		"func f(m map[string]int) (n int) {\n//arch:sorted a sum has no order\nfor _, v := range m { n += v }; return n }",
	}
	imp := stdImporter(t)
	run := func(code string) []string {
		u := source(t, "internal/engine", "code.go", code)
		u.check(t, imp, true)
		pureFindings(u)
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
