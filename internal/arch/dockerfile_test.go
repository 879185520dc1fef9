package arch

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// instruction is one line of a Dockerfile, continued lines joined.
type instruction struct{ name, args string }

// stage is what stands between two FROM lines.
type stage struct {
	base, name   string
	instructions []instruction
}

// parseDockerfile reads as much of the format as ours uses.
func parseDockerfile(text string) []stage {
	var stages []stage
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, args, _ := strings.Cut(line, " ")
		args = strings.Join(strings.Fields(args), " ")
		if name == "FROM" {
			base, as, _ := strings.Cut(args, " AS ")
			stages = append(stages, stage{base: base, name: as})
			continue
		}
		last := &stages[len(stages)-1]
		last.instructions = append(last.instructions, instruction{name, args})
	}
	return stages
}

// one returns the arguments of a stage's only instruction of a name.
func (s *stage) one(name string) string {
	var found []string
	for _, i := range s.instructions {
		if i.name == name {
			found = append(found, i.args)
		}
	}
	if len(found) != 1 {
		return fmt.Sprintf("(%d of %s)", len(found), name)
	}
	return found[0]
}

// buildCommand returns the stage's go build command without its mounts.
func (s *stage) buildCommand() string {
	for _, i := range s.instructions {
		if at := strings.Index(i.args, "CGO_ENABLED="); i.name == "RUN" && at >= 0 {
			return i.args[at:]
		}
	}
	return ""
}

func dockerfile(t testing.TB) (build, final *stage) {
	t.Helper()
	stages := parseDockerfile(string(readFile(t, filepath.Join(root(t), "Dockerfile"))))
	if len(stages) != 2 {
		t.Fatalf("%d stages, want one that builds and one that ships", len(stages))
	}
	return &stages[0], &stages[1]
}

func TestDockerfile_ShipsOneFileAsNobody(t *testing.T) {
	build, final := dockerfile(t)
	for _, c := range []struct{ what, got, want string }{
		{"build stage", build.name, "build"},
		{"final base", final.base, "scratch"},
		{"USER", final.one("USER"), "65532:65532"},
		{"VOLUME", final.one("VOLUME"), "/data"},
		{"WORKDIR", final.one("WORKDIR"), "/data"},
		{"ENV", final.one("ENV"), "ATTEND_STORE=sqlite:/data/attend.db"},
		{"ENTRYPOINT", final.one("ENTRYPOINT"), `["/attend"]`},
		{"CMD", final.one("CMD"), `["serve"]`},
	} {
		if c.got != c.want {
			t.Errorf("%s is %q, want %q", c.what, c.got, c.want)
		}
	}
	// In scratch there is no shell: every command is a list.
	if check := final.one("HEALTHCHECK"); !strings.HasSuffix(check, ` CMD ["/attend", "ready"]`) {
		t.Errorf("HEALTHCHECK is %q, want attend ready, as a list", check)
	}
	var copies []string
	for _, i := range final.instructions {
		if i.name == "COPY" {
			copies = append(copies, i.args)
		}
		if i.name == "RUN" || i.name == "ADD" {
			t.Errorf("%s %s in a stage that has nothing to run it with", i.name, i.args)
		}
	}
	want := []string{"--from=build /out/attend /attend", "--from=build --chown=65532:65532 /out/data /data"}
	if !slices.Equal(copies, want) {
		t.Errorf("ships %q, want %q", copies, want)
	}
}

func TestDockerfile_GoIsTheModulesGo(t *testing.T) {
	build, _ := dockerfile(t)
	mod := string(readFile(t, filepath.Join(root(t), "go.mod")))
	_, rest, _ := strings.Cut(mod, "\ngo ")
	version, _, _ := strings.Cut(rest, "\n")
	major := strings.Join(strings.SplitN(version, ".", 3)[:2], ".")
	if !strings.HasPrefix(build.base, "golang:"+major+"-") {
		t.Errorf("built from %s, and go.mod asks for Go %s", build.base, version)
	}
}

// .dockerignore keeps everything out but what it names: a package that it does
// not name breaks the image's build, and nothing else's.
func TestDockerfile_ContextHoldsEveryPackage(t *testing.T) {
	ignore := string(readFile(t, filepath.Join(root(t), ".dockerignore")))
	for _, needed := range append(goList(t, "-deps", "./cmd/attend"), &pkg{ImportPath: modulePath + "/go.mod"}, &pkg{ImportPath: modulePath + "/go.sum"}) {
		if !inModule(needed.ImportPath) {
			continue
		}
		top, _, _ := strings.Cut(needed.rel(), "/")
		if !strings.Contains(ignore, "\n!"+top+"\n") {
			t.Errorf("%s is needed, and .dockerignore leaves %s out", needed.rel(), top)
		}
	}
}

// buildAsDockerfile runs the build line as it stands, but for the place of its
// output.
func buildAsDockerfile(t testing.TB, out string) {
	t.Helper()
	build, _ := dockerfile(t)
	line := build.buildCommand()
	if !strings.Contains(line, " -o /out/attend ") {
		t.Fatalf("build line %q does not write /out/attend", line)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.Replace(line, "/out/attend", out, 1))
	cmd.Dir = root(t)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, b)
	}
}

// static returns nil when an ELF file needs no loader and no library.
func static(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			return fmt.Errorf("has a %s segment: it is linked dynamically", p.Type)
		}
	}
	libraries, err := f.ImportedLibraries()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return err
	}
	if len(libraries) > 0 {
		return fmt.Errorf("needs %q", libraries)
	}
	return nil
}

func TestDockerfile_StaticRefusesALoader(t *testing.T) {
	for _, c := range []struct {
		segment elf.ProgType
		static  bool
	}{{elf.PT_LOAD, true}, {elf.PT_INTERP, false}, {elf.PT_DYNAMIC, false}} {
		path := filepath.Join(t.TempDir(), "elf")
		if err := os.WriteFile(path, tinyELF(t, c.segment), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := static(path); (err == nil) != c.static {
			t.Errorf("a file with a %s segment: %v", c.segment, err)
		}
	}
}

// tinyELF is a file of one header and one segment.
func tinyELF(t testing.TB, segment elf.ProgType) []byte {
	t.Helper()
	header := elf.Header64{
		Ident:   [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_EXEC),
		Machine: uint16(elf.EM_X86_64),
		Version: uint32(elf.EV_CURRENT),
		Phoff:   64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64,
	}
	var b bytes.Buffer
	for _, part := range []any{header, elf.Prog64{Type: uint32(segment)}} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestDockerfile_ParserReadsWhatItIsGiven(t *testing.T) {
	stages := parseDockerfile("# a\nFROM golang:1 AS build\nRUN --mount=x \\\n    CGO_ENABLED=0 go build\nFROM scratch\nUSER 1\nCOPY a b\nCOPY c d\n")
	if len(stages) != 2 || stages[0].name != "build" || stages[1].base != "scratch" {
		t.Fatalf("stages %+v", stages)
	}
	if got := stages[0].buildCommand(); got != "CGO_ENABLED=0 go build" {
		t.Errorf("build command %q", got)
	}
	if got := stages[1].one("USER"); got != "1" {
		t.Errorf("USER %q", got)
	}
	if got := stages[1].one("COPY"); got != "(2 of COPY)" {
		t.Errorf("two COPY lines give %q", got)
	}
}
