package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// unit is one package's files, parsed and, as far as needed, type-checked.
type unit struct {
	rel   string // the package's place in the module
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info // of the files that are not tests
	marks map[string]mark
	found []string
}

// mark is an //arch: comment, kept by file and line.
type mark struct{ name, why string }

// report notes a finding at a node, unless the node's line or the line above
// carries the mark ("" for rules without one).
func (u *unit) report(n ast.Node, markName, format string, args ...any) {
	at := u.fset.Position(n.Pos())
	for _, line := range []int{at.Line, at.Line - 1} {
		m, ok := u.marks[lineKey(at.Filename, line)]
		if !ok || markName == "" || m.name != markName {
			continue
		}
		if m.why == "" {
			u.found = append(u.found, fmt.Sprintf("%s:%d: //arch:%s without a reason", at.Filename, line, m.name))
		}
		return
	}
	u.found = append(u.found, fmt.Sprintf("%s:%d: %s", at.Filename, at.Line, fmt.Sprintf(format, args...)))
}

func lineKey(file string, line int) string { return file + ":" + strconv.Itoa(line) }

// isTest reports whether a node stands in a test file.
func (u *unit) isTest(n ast.Node) bool {
	return strings.HasSuffix(u.fset.Position(n.Pos()).Filename, "_test.go")
}

// parseUnit parses sources, by file name.
func parseUnit(t testing.TB, rel string, names []string, read func(name string) any) *unit {
	t.Helper()
	u := &unit{rel: rel, fset: token.NewFileSet(), marks: make(map[string]mark)}
	for _, name := range names {
		f, err := parser.ParseFile(u.fset, rel+"/"+name, read(name), parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		u.files = append(u.files, f)
		for _, group := range f.Comments {
			for _, c := range group.List {
				text, ok := strings.CutPrefix(c.Text, "//arch:")
				if !ok {
					continue
				}
				name, why, _ := strings.Cut(text, " ")
				at := u.fset.Position(c.Pos())
				u.marks[lineKey(at.Filename, at.Line)] = mark{name, strings.TrimSpace(why)}
			}
		}
	}
	return u
}

// check type-checks the files that are not tests. With strict unset, errors
// are passed over: names are resolved all the same, and that is enough for
// rules that ask which variable is meant.
func (u *unit) check(t testing.TB, imp types.Importer, strict bool) {
	t.Helper()
	u.info = &types.Info{
		Types:      make(map[ast.Expr]types.TypeAndValue),
		Defs:       make(map[*ast.Ident]types.Object),
		Uses:       make(map[*ast.Ident]types.Object),
		Selections: make(map[*ast.SelectorExpr]*types.Selection),
	}
	conf := types.Config{Importer: imp, Error: func(err error) {
		if strict {
			t.Error(err)
		}
	}}
	var files []*ast.File
	for _, f := range u.files {
		if !u.isTest(f) {
			files = append(files, f)
		}
	}
	_, _ = conf.Check(modulePath+"/"+u.rel, u.fset, files, u.info) // the error was given to Error
}

// source makes a unit of one file in memory, for the rules' own tests.
func source(t testing.TB, rel, name, code string) *unit {
	t.Helper()
	if !strings.Contains(code, "package ") {
		code = "package p\n" + code
	}
	return parseUnit(t, rel, []string{name}, func(string) any { return code })
}

// units parses every package of the module.
func units(t testing.TB) []*unit {
	t.Helper()
	var all []*unit
	for _, p := range goList(t, "-tags=e2e", "./...") {
		names := append(append(append([]string(nil), p.GoFiles...), p.TestGoFiles...), p.XTestGoFiles...)
		all = append(all, parseUnit(t, p.rel(), names, func(name string) any { return readFile(t, filepath.Join(p.Dir, name)) }))
	}
	if len(all) < 3 {
		t.Fatalf("found %d packages: the rules looked at nothing", len(all))
	}
	return all
}

// majorVersion is the last element of an import path that is no name.
var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// importNames maps the names by which a file knows its imports to their paths.
func importNames(f *ast.File) map[string]string {
	names := make(map[string]string)
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(p)
		if majorVersion.MatchString(name) {
			name = path.Base(path.Dir(p))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = p
	}
	return names
}

// qualified returns the import path and name of a selector such as time.Now.
func qualified(names map[string]string, e ast.Expr) (importPath, name string) {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return names[id.Name], sel.Sel.Name
}
