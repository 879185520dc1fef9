//go:build unix

package program_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/program"
)

func TestNew_TheEnvironmentIsSmall(t *testing.T) {
	s, err := program.New(program.Options{
		Command: []string{os.Args[0], "role:env"},
		Env:     map[string]string{"MODE": "fast", "LANG": "C", "EMPTY": ""},
	}, []string{"PATH=/bin", "HOME=/h", "LANG=de_DE", "TZ=UTC", "TMPDIR=/t", "OPENAI_API_KEY=sk-1234", "REGION=eu", "LD_PRELOAD=x", "odd"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.Run(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"EMPTY=", "HOME=/h", "LANG=C", "MODE=fast", "PATH=/bin", "TMPDIR=/t", "TZ=UTC"}
	if diff := cmp.Diff(want, strings.Fields(string(out.Stdout))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	none, err := program.New(program.Options{Command: []string{os.Args[0], "role:env"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := program.Run(t.Context(), none, nil); err != nil || strings.TrimSpace(string(out.Stdout)) != "" {
		t.Errorf("of nothing: %q, %v", out.Stdout, err)
	}
}

// folder makes a folder with one program in it that can be run, and one file
// that cannot.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(self, filepath.Join(dir, "judge")), os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestNew_FindsTheProgram(t *testing.T) {
	dir := folder(t)
	for _, c := range []struct {
		name string
		o    program.Options
		path string
	}{
		{"in PATH", program.Options{Command: []string{"judge"}}, "relative:" + dir},
		{"in a PATH of its own", program.Options{Command: []string{"judge"}, Env: map[string]string{"PATH": dir}}, "/nowhere"},
		{"by its path", program.Options{Command: []string{filepath.Join(dir, "judge")}}, ""},
		{"from its folder", program.Options{Command: []string{"./judge"}, Dir: dir}, ""},
	} {
		c.o.Command = append(c.o.Command, "role:dir")
		s, err := program.New(c.o, []string{"PATH=" + c.path})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		out, err := program.Run(t.Context(), s, nil)
		if err != nil || c.o.Dir != "" && string(out.Stdout) != c.o.Dir {
			t.Errorf("%s: in %q, %v", c.name, out.Stdout, err)
		}
		if s.Name() != "judge" {
			t.Errorf("%s: named %q", c.name, s.Name())
		}
	}
}

func TestNew_SaysWhatIsWrong(t *testing.T) {
	dir := folder(t)
	path := []string{"PATH=" + dir}
	for _, c := range []struct {
		name string
		o    program.Options
		says string
		is   error
	}{
		{"nothing", program.Options{}, "the command is empty", nil},
		{"an empty name", program.Options{Command: []string{""}}, "the command is empty", nil},
		{"a NUL byte", program.Options{Command: []string{"judge", "a\x00b"}}, "part 2 of the command holds a NUL byte", nil},
		{"a name that is nowhere", program.Options{Command: []string{"jugde"}}, "find the command jugde in PATH", fs.ErrNotExist},
		{"a name that cannot be run", program.Options{Command: []string{"notes"}}, "find the command notes in PATH", fs.ErrPermission},
		{"a path that is nowhere", program.Options{Command: []string{"./jugde"}, Dir: dir}, "the command " + dir + "/jugde is not there", fs.ErrNotExist},
		{"a path that cannot be run", program.Options{Command: []string{dir + "/notes"}}, "notes is not executable", fs.ErrPermission},
		{"a folder", program.Options{Command: []string{dir}}, "is not", nil},
		{"a relative folder", program.Options{Command: []string{"judge"}, Dir: "judges"}, `the command's folder "judges" is not absolute`, nil},
		{"a folder that is nowhere", program.Options{Command: []string{"judge"}, Dir: dir + "/x"}, "look at the command's folder", fs.ErrNotExist},
		{"a file as the folder", program.Options{Command: []string{"judge"}, Dir: dir + "/notes"}, "is no folder", nil},
		{"an odd variable", program.Options{Command: []string{"judge"}, Env: map[string]string{"A=B": "secret"}}, `"A=B" cannot be the name of a variable`, nil},
		{"an odd value", program.Options{Command: []string{"judge"}, Env: map[string]string{"A": "secret\x00"}}, "the value of A holds a NUL byte", nil},
	} {
		_, err := program.New(c.o, path)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.says)
		}
	}
}
