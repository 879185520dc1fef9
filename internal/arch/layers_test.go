package arch

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// A layer may import the layers above it in this list, never its own and never
// one below: that is what "adapters never import each other" means.
type layer struct {
	name     string
	why      string
	packages []string // path.Match patterns within the module
}

var layers = []layer{
	{
		"rules", "a pure function of its input can be replayed, tested and trusted",
		[]string{"internal/engine", "internal/field"},
	},
	{
		"contracts", "a contract that knows an implementation is not one",
		[]string{"internal/store", "internal/judge"},
	},
	{
		"vocabulary", "cursors, problems, rights, conditions and commands are the same words wherever they are met",
		[]string{
			"internal/access", "internal/expr", "internal/feed", "internal/fields", "internal/guard", "internal/problem",
			"internal/program", "internal/silences", "internal/judge/wire",
		},
	},
	{
		"services", "what goes on behind an adapter, or is checked when the configuration is read too, is held and tested without either",
		[]string{"internal/mcpserve/webhook", "internal/judge/rules", "internal/ingest/hooks"},
	},
	{
		"adapters", "an adapter that knows another cannot be replaced or tested alone: it says what it needs in a small interface of its own",
		[]string{
			"internal/ingest", "internal/runner", "internal/mcpserve", "internal/api", "internal/config",
			"internal/store/*", "internal/judge/*", "internal/sink", "internal/sink/*", "internal/source", "internal/source/*",
			"internal/replay", "internal/retention", "internal/backup", "internal/bridge", "examples",
		},
	},
	{
		"wiring", "one package names concrete types, so that there is one place to look",
		[]string{"internal/app"},
	},
	{
		"command", "main is thin: what is not in it can be tested",
		[]string{"cmd/attend"},
	},
}

// kits are packages for tests. No file that ends in the daemon may import them.
var kits = []string{"internal/store/storetest", "internal/store/postgres/pgtest", "internal/judge/judgetest", "internal/sim", "internal/arch", "e2e"}

// pureImports are all that the rules may import. Everything here is a function
// of its arguments.
var pureImports = []string{
	"bytes", "cmp", "crypto/sha256", "encoding", "encoding/base64", "encoding/binary", "encoding/hex", "encoding/json",
	"errors", "fmt", "hash", "iter", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings",
	"unicode", "unicode/utf8",
}

// owned are the libraries that one place alone may know, each with the reason.
// A path owns everything below it.
var owned = []struct {
	library string
	owners  []string
	why     string
}{
	{"github.com/spf13/cobra", []string{"cmd/attend"}, "the command line belongs to the command"},
	{"github.com/spf13/viper", []string{"cmd/attend", "internal/config"}, "it lower-cases and splits keys: scalars only, in one place"},
	{"modernc.org/sqlite", []string{"internal/store/sqlite"}, "a database driver stays behind the store's contract"},
	{"github.com/jackc/pgx", []string{"internal/store/postgres"}, "a database driver stays behind the store's contract"},
	{"database/sql", []string{"internal/store/sqlite", "internal/store/postgres"}, "SQL stays behind the store's contract"},
	{"github.com/modelcontextprotocol/go-sdk", []string{"internal/mcpserve", "internal/source", "cmd/attend"}, "the protocol stays in the package that speaks it; the demo's agent is a real client"},
	{"github.com/standard-webhooks/standard-webhooks", []string{"internal/mcpserve/webhook", "internal/sink", "internal/ingest"}, "what is signed, and with which secret, is decided where it is sent or taken"},
	{"cel.dev/cel-go", []string{"internal/expr"}, "what a condition may see, cost and do is decided in one place"},
	{"github.com/klauspost/compress", []string{"internal/ingest"}, "expanded bytes are counted in one place"},
}

// banned libraries, each with the reason.
var banned = []struct{ library, why string }{
	{"math/rand", "random numbers that matter are drawn from crypto/rand once and recorded; jitter is derived from ids"},
	{"math/rand/v2", "random numbers that matter are drawn from crypto/rand once and recorded; jitter is derived from ids"},
	{"log", "log/slog, injected"},
	{"io/ioutil", "replaced by io and os"},
	{"net/http/pprof", "it registers itself on the default mux by being imported"},
	{"expvar", "it registers itself on the default mux by being imported"},
	{"github.com/pkg/errors", "errors and fmt have %w"},
	{"github.com/prometheus/client_golang/prometheus/promauto", "metrics go to the registerer that was passed in"},
	{"unsafe", "nothing here is worth it"},
}

// layerOf returns the number of a package's layer. A test kit stands beside
// the wiring: it may name concrete adapters, to compare others with them.
func layerOf(rel string) (int, bool) {
	if slices.Contains(kits, rel) {
		return layerNumber("wiring"), true
	}
	for i, l := range layers {
		for _, pattern := range l.packages {
			if ok, _ := path.Match(pattern, rel); ok {
				return i, true
			}
		}
	}
	return 0, false
}

func layerNumber(name string) int {
	return slices.IndexFunc(layers, func(l layer) bool { return l.name == name })
}

// importFindings checks one package's imports (tests left out) against the
// arrows, the pure list, the owned and the banned libraries.
func importFindings(p *pkg) []string {
	rel := p.rel()
	own, known := layerOf(rel)
	if !known {
		return []string{"stands in no layer: give it a place in internal/arch/layers_test.go"}
	}
	var found []string
	for _, imp := range p.Imports {
		found = append(found, arrowFindings(own, rel, imp)...)
		found = append(found, libraryFindings(rel, imp)...)
		if layers[own].name == "rules" && !slices.Contains(pureImports, imp) {
			found = append(found, fmt.Sprintf("imports %s: the rules import only what is pure (%s)", imp, layers[own].why))
		}
	}
	return found
}

func arrowFindings(own int, rel, imp string) []string {
	if !inModule(imp) {
		return nil
	}
	to := relative(imp)
	if slices.Contains(kits, to) && !slices.Contains(kits, rel) {
		return []string{fmt.Sprintf("imports the test kit %s outside a test", to)}
	}
	other, known := layerOf(to)
	if !known {
		return []string{fmt.Sprintf("imports %s, which stands in no layer", to)}
	}
	if other >= own {
		return []string{fmt.Sprintf("(%s) imports %s (%s): arrows point down only; %s", layers[own].name, to, layers[other].name, layers[own].why)}
	}
	return nil
}

func libraryFindings(rel, imp string) []string {
	var found []string
	for _, b := range banned {
		if imp == b.library {
			found = append(found, fmt.Sprintf("imports %s: %s", imp, b.why))
		}
	}
	for _, o := range owned {
		if within(imp, o.library) && !slices.ContainsFunc(o.owners, func(owner string) bool { return within(rel, owner) }) {
			found = append(found, fmt.Sprintf("imports %s, which only %s may: %s", imp, strings.Join(o.owners, " and "), o.why))
		}
	}
	return found
}

// within reports whether a path is tree or stands below it.
func within(p, tree string) bool { return p == tree || strings.HasPrefix(p, tree+"/") }

func TestLayers_ArrowsPointDown(t *testing.T) {
	pkgs := goList(t, "./...")
	if len(pkgs) < 3 {
		t.Fatalf("go list found %d packages: the rule looked at nothing", len(pkgs))
	}
	for _, p := range pkgs {
		if p.rel() == "internal/arch" {
			continue // its tests import what they check with
		}
		for _, f := range importFindings(p) {
			t.Errorf("%s %s", p.rel(), f)
		}
	}
}

// The rule itself: each line is a package with one import, and what is said
// of it ("" for nothing).
func TestLayers_RuleFails(t *testing.T) {
	for _, c := range []struct{ from, imports, want string }{
		{"attend/internal/ingest", "attend/internal/engine", ""},
		{"attend/internal/ingest", "attend/internal/store", ""},
		{"attend/internal/ingest", "attend/internal/problem", ""},
		{"attend/internal/app", "attend/internal/store/sqlite", ""},
		{"attend/internal/store/storetest", "attend/internal/store", ""},
		{"attend/internal/store/storetest", "attend/internal/store/memory", ""},
		{"attend/internal/engine", "crypto/sha256", ""},
		{"attend/internal/store/sqlite", "modernc.org/sqlite/lib", ""},

		{"attend/internal/engine", "attend/internal/store", "arrows point down only"},
		{"attend/internal/engine", "attend/internal/field", "arrows point down only"},
		{"attend/internal/engine", "time", "only what is pure"},
		{"attend/internal/engine", "os", "only what is pure"},
		{"attend/internal/field", "math/rand/v2", "drawn from crypto/rand"},
		{"attend/internal/store", "attend/internal/store/memory", "arrows point down only"},
		{"attend/internal/feed", "attend/internal/problem", "arrows point down only"},
		{"attend/internal/ingest", "attend/internal/runner", "arrows point down only"},
		{"attend/internal/mcpserve", "attend/internal/store/sqlite", "arrows point down only"},
		{"attend/internal/store/memory", "attend/internal/store/sqlite", "arrows point down only"},
		{"attend/internal/store/storetest", "attend/internal/app", "arrows point down only"},
		{"attend/internal/runner", "attend/internal/app", "arrows point down only"},
		{"attend/internal/app", "attend/internal/store/storetest", "test kit"},
		{"attend/internal/app", "attend/internal/sim", "test kit"},
		{"attend/internal/helper", "fmt", "no layer"},
		{"attend/internal/app", "attend/internal/helper", "no layer"},
		{"attend/internal/api", "modernc.org/sqlite", "only internal/store/sqlite may"},
		{"attend/internal/runner", "database/sql", "SQL stays behind"},
		{"attend/internal/app", "github.com/jackc/pgx/v5", "only internal/store/postgres may"},
		{"attend/internal/app", "github.com/spf13/cobra", "only cmd/attend may"},
		{"attend/internal/api", "github.com/modelcontextprotocol/go-sdk/mcp", "only internal/mcpserve"},
		{"attend/internal/app", "net/http/pprof", "default mux"},
	} {
		got := strings.Join(importFindings(&pkg{ImportPath: c.from, Imports: []string{c.imports}}), "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s importing %s: got %q, want %q", c.from, c.imports, got, c.want)
		}
	}
}
