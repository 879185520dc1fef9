package arch

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exactVersion is one version of one package, under its own name or another.
var exactVersion = regexp.MustCompile(`^(npm:@?[a-z0-9./-]+@)?[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`)

// npmFindings checks what the end-to-end tests take from npm: exact versions,
// from the public registry alone, each with its hash.
func npmFindings(manifest, lock []byte) ([]string, error) {
	var wants struct {
		Dependencies, OptionalDependencies, DevDependencies map[string]string
	}
	if err := json.Unmarshal(manifest, &wants); err != nil {
		return nil, fmt.Errorf("package.json: %w", err)
	}
	var has struct {
		Packages map[string]struct{ Resolved, Integrity string }
	}
	if err := json.Unmarshal(lock, &has); err != nil {
		return nil, fmt.Errorf("package-lock.json: %w", err)
	}
	var found []string
	for _, set := range []map[string]string{wants.Dependencies, wants.OptionalDependencies, wants.DevDependencies} {
		for _, name := range slices.Sorted(maps.Keys(set)) {
			if !exactVersion.MatchString(set[name]) {
				found = append(found, fmt.Sprintf("%s is wanted as %q: name one version", name, set[name]))
			}
			if _, locked := has.Packages["node_modules/"+name]; !locked {
				found = append(found, name+" is not locked: run npm install in e2e")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(has.Packages)) {
		p := has.Packages[name]
		switch {
		case name == "": // the manifest itself
		case p.Resolved != "" && !strings.HasPrefix(p.Resolved, "https://registry.npmjs.org/"):
			found = append(found, fmt.Sprintf("%s comes from %s: others cannot install it", name, p.Resolved))
		case !strings.HasPrefix(p.Integrity, "sha512-"):
			found = append(found, name+" has no hash")
		}
	}
	return found, nil
}

func TestNPM_IsPinned(t *testing.T) {
	dir := filepath.Join(root(t), "e2e")
	found, err := npmFindings(readFile(t, filepath.Join(dir, "package.json")), readFile(t, filepath.Join(dir, "package-lock.json")))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}

func TestNPM_RuleFails(t *testing.T) {
	const hash = `"integrity": "sha512-x"`
	for _, c := range []struct {
		manifest, lock string
		findings       int
	}{
		{`{"dependencies": {"a": "1.2.3", "b": "npm:@x/y@0.1.0-alpha.1"}}`, `{"packages": {"": {}, "node_modules/a": {` + hash + `}, "node_modules/b": {"resolved": "https://registry.npmjs.org/b.tgz", ` + hash + `}}}`, 0},
		{`{"dependencies": {"a": "^1.2.3"}}`, `{"packages": {"node_modules/a": {` + hash + `}}}`, 1},
		{`{"optionalDependencies": {"a": "1.2"}}`, `{"packages": {"node_modules/a": {` + hash + `}}}`, 1},
		{`{"dependencies": {"a": "1.2.3"}}`, `{"packages": {}}`, 1},
		{`{}`, `{"packages": {"node_modules/a": {"resolved": "https://npm.example.com/a.tgz", ` + hash + `}}}`, 1},
		{`{}`, `{"packages": {"node_modules/a": {}}}`, 1},
	} {
		got, err := npmFindings([]byte(c.manifest), []byte(c.lock))
		if err != nil || len(got) != c.findings {
			t.Errorf("%s %s: findings %q (%v), want %d", c.manifest, c.lock, got, err, c.findings)
		}
	}
}
