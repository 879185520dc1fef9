// Package program runs the commands that a configuration names: judges, sinks,
// hooks, sources that speak over stdio. All of them are run in the same way:
//
//   - The command is a list: a program and its arguments. There is no shell, so
//     that nothing in it is expanded and nothing can be smuggled in.
//   - Its environment is small: where to find programs, a home, a language, a
//     time zone, a folder for temporary files, and what the configuration
//     names. The daemon's keys are not among it.
//   - What it is to work on comes on its standard input, never in an argument,
//     which every user of the machine can read.
//   - What it writes is bounded, and so is its time. At the end of its time the
//     whole process group is asked to end (SIGTERM), and made to (SIGKILL) after
//     a short grace. Nothing that it started stays behind in its group. Where the
//     daemon is killed itself, only Linux ends the program with it, and what that
//     started lives on.
//   - It answers by its exit status: 0 is done, [ExitPermanent] is "never try
//     this again", anything else is a failed attempt.
package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// MaxOutput is how many bytes a program may write to its standard output,
	// unless [Spec.Bounded] says otherwise.
	MaxOutput = 1 << 20

	// defaultGrace is the time between the request to end and the end.
	defaultGrace = 2 * time.Second

	// minSecret is the length from which a named value is hidden in what a
	// program says. Shorter ones ("1", "on") are no secrets, and hiding them
	// would leave nothing to read.
	minSecret = 4
)

// Options describe a command as it is configured.
type Options struct {
	Command []string          // the program and its arguments
	Dir     string            // the working folder, absolute; "" is the daemon's own
	Env     map[string]string // variables and their values, besides the few that every program gets
}

// Spec is a command that has been looked up and is ready to run, any number of
// times and side by side. The zero Spec runs nothing: see [New].
type Spec struct {
	path      string
	args      []string
	dir       string
	env       []string
	secrets   []string // longest first
	maxOutput int
	unheard   bool
	grace     time.Duration
}

// New looks a command up and gathers its environment. The environ is the
// daemon's, as [os.Environ] gives it. The error names what is wrong and how to
// mend it, and holds no value of a variable.
func New(o Options, environ []string) (Spec, error) {
	if len(o.Command) == 0 || o.Command[0] == "" {
		return Spec{}, errors.New("the command is empty: write a list, the program first and each argument by itself")
	}
	for i, arg := range o.Command {
		if strings.ContainsRune(arg, 0) {
			return Spec{}, fmt.Errorf("part %d of the command holds a NUL byte, which no argument can", i+1)
		}
	}
	if err := checkDir(o.Dir); err != nil {
		return Spec{}, err
	}
	env, secrets, err := environment(o.Env, environ)
	if err != nil {
		return Spec{}, err
	}
	path, err := lookUp(o.Command[0], o.Dir, env)
	if err != nil {
		return Spec{}, err
	}
	return Spec{
		path: path, args: slices.Clone(o.Command), dir: o.Dir, env: env, secrets: secrets,
		maxOutput: MaxOutput, grace: defaultGrace,
	}, nil
}

// Name returns the program's name without its folder, for messages.
func (s Spec) Name() string { return filepath.Base(s.path) }

// Bounded returns the same command with another limit to what it may write to
// its standard output, in bytes.
func (s Spec) Bounded(output int) Spec {
	s.maxOutput = output
	return s
}

// Unheard returns the same command with a standard output that nobody reads,
// where it may write what it likes.
func (s Spec) Unheard() Spec {
	s.unheard = true
	return s
}

// Cmd returns the command with its environment and folder, in a process group
// of its own, not yet started. It is for children that live long; [Run] is for
// those that answer and end. When the context ends the group is asked to end;
// the program is killed, and its pipes are closed, after a short grace. Whoever
// has waited for it then calls [End].
func (s Spec) Cmd(ctx context.Context) *exec.Cmd {
	cmd := s.set(exec.CommandContext(ctx, s.path))
	cmd.Cancel = func() error { return ask(cmd) }
	cmd.WaitDelay = s.grace
	return cmd
}

// set gives a command its arguments, folder, environment and group.
func (s Spec) set(cmd *exec.Cmd) *exec.Cmd {
	cmd.Args = s.args
	cmd.Dir = s.dir
	cmd.Env = s.env
	group(cmd)
	return cmd
}

// Redact hides the values of the variables that the configuration names in a
// text, so that it can be shown.
func (s Spec) Redact(text string) string {
	for _, secret := range s.secrets {
		text = strings.ReplaceAll(text, secret, "[hidden]")
	}
	return text
}

func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("the command's folder %q is not absolute: where it leads would depend on where the daemon was started", dir)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the command's folder: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("the command's folder %s is no folder", dir)
	}
	return nil
}

// environment returns the variables of a command, in order of their names, and
// those of their values that are hidden in what it says.
func environment(named map[string]string, environ []string) (env, secrets []string, err error) {
	own := make(map[string]string, len(environ))
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok {
			own[name] = value
		}
	}
	vars := make(map[string]string)
	for _, name := range inherited() {
		if value, ok := own[name]; ok {
			vars[name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return nil, nil, fmt.Errorf("%q cannot be the name of a variable", name)
		}
		if strings.ContainsRune(named[name], 0) {
			return nil, nil, fmt.Errorf("the value of %s holds a NUL byte, which no variable can", name)
		}
		vars[name] = named[name]
		secrets = append(secrets, named[name])
	}
	env = make([]string, 0, len(vars)) // never nil, which would be the daemon's whole environment
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return env, slices.Compact(secrets), nil
}

// lookUp finds the program: a path as it is, from the command's folder where it
// is relative; a name in the folders of the command's own PATH. A folder of PATH
// that is relative does not count.
func lookUp(name, dir string, env []string) (string, error) {
	if strings.ContainsRune(filepath.ToSlash(name), '/') {
		if dir != "" && !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		path, err := filepath.Abs(name)
		if err != nil {
			return "", fmt.Errorf("find the command %s: %w", name, err)
		}
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		} else if errors.Is(err, fs.ErrPermission) {
			return "", fmt.Errorf("%s is not executable: give it to a program that runs it, or chmod +x: %w", path, fs.ErrPermission)
		}
		return "", fmt.Errorf("the command %s is not there: %w", path, fs.ErrNotExist)
	}
	var search string
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			search = v
		}
	}
	missing := fs.ErrNotExist
	for _, folder := range filepath.SplitList(search) {
		if !filepath.IsAbs(folder) {
			continue
		}
		found, err := exec.LookPath(filepath.Join(folder, name))
		if err == nil {
			return found, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			missing = fs.ErrPermission
		}
	}
	return "", fmt.Errorf("find the command %s in PATH: %w: install it, or name it by its whole path", name, missing)
}
