package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A topic keeps its type: to a Field, 7 and "7" are different topics.
func TestLoad_ContextAttune(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		file string
		want *Attune
	}{
		{"context: {attune: {agent: ada}}", &Attune{Field: "default", Agent: "ada", MaxUnits: 20}},
		{"context: {attune: {agent: 7, topic: 7, field: shop, role: lead, maxUnits: 3}}", &Attune{Field: "shop", Agent: "7", Topic: 7.0, Role: "lead", MaxUnits: 3}},
		{`context: {attune: {agent: ada, topic: "7"}}`, &Attune{Field: "default", Agent: "ada", Topic: "7", MaxUnits: 20}},
		{"context: {attune: {agent: ada, topic: true}}", &Attune{Field: "default", Agent: "ada", Topic: true, MaxUnits: 20}},
		{"context: {attune: {agent: ada, topic: -0.5}}", &Attune{Field: "default", Agent: "ada", Topic: -0.5, MaxUnits: 20}},
		{"context: {attune: {agent: ada, topic: null}}", &Attune{Field: "default", Agent: "ada", MaxUnits: 20}},
		{"context: {attune: null}", nil},
		{"context:", nil},
	} {
		write(t, DefaultFile, c.file)
		loaded, err := Load(nil, nil)
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if diff := cmp.Diff(c.want, loaded.Context.Attune); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.file, diff)
		}
	}
}
