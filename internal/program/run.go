package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"attend/internal/engine"
)

// ExitPermanent is the exit status of a program that says: trying this again
// will not help. It is EX_DATAERR of sysexits.
const ExitPermanent = 65

const (
	maxStderr  = 8 << 10 // bytes that are kept of what a program says, from the end
	maxMessage = 700     // bytes of it that an error's text holds, from the end

	// leftOver is how long the pipes of a program that has ended are read on,
	// where something that it started holds them open.
	leftOver = 100 * time.Millisecond
)

// errFlood ends a program that writes too much.
var errFlood = errors.New("it wrote too much")

// Output is what a program that has done its work wrote.
type Output struct {
	Stdout []byte
	Stderr string // the last 8 KiB, control characters escaped, the values of named variables hidden
}

// Error is a program that did not do its work. Its text holds what the program
// said on standard error, and nothing of its input or of the values of its
// variables.
type Error struct {
	Name   string // of the program
	Code   int    // the exit status; -1 when it did not start, was ended, or died of a signal
	Stderr string // as in [Output]
	what   string
	cause  error
}

// Error implements error.
func (e *Error) Error() string {
	text := e.What()
	if e.Stderr != "" {
		text += ": " + lastOf(e.Stderr, maxMessage)
	}
	return text
}

// What tells what became of the program, without what it said.
func (e *Error) What() string { return fmt.Sprintf("command %s %s", e.Name, e.what) }

// Unwrap returns why the program did not start, or why it was ended: the
// context's error. It is nil for a program that ended by itself.
func (e *Error) Unwrap() error { return e.cause }

// Permanent reports whether the program said that trying again will not help.
func (e *Error) Permanent() bool { return e.Code == ExitPermanent }

// Run runs a program: stdin is what it can read, and its end; a program need
// not read it. It returns what the program wrote when it has ended with status
// 0. Any other end is an *[Error]. When Run returns, nothing of the program's
// process group is left; it returns soon after the program has ended, and at the
// latest a few seconds after the context has. On Linux the program dies with the
// daemon.
func Run(ctx context.Context, s Spec, stdin []byte) (Output, error) {
	start := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout := &bounded{limit: s.maxOutput, over: func() { cancel(errFlood) }}
	stderr := s.Tail()
	cmd := s.set(exec.CommandContext(context.WithoutCancel(ctx), s.path)) // ended by watch
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if s.unheard {
		cmd.Stdout = nil
	}
	cmd.WaitDelay = leftOver
	told, err := s.live(ctx, cmd)

	fail := func(code int, cause error, format string, args ...any) (Output, error) {
		return Output{}, &Error{Name: s.Name(), Code: code, Stderr: stderr.String(), what: fmt.Sprintf(format, args...), cause: cause}
	}
	var exit *exec.ExitError
	switch {
	case stdout.flooded:
		return fail(-1, errFlood, "wrote more than %d bytes to its standard output, which is not taken", s.maxOutput)
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && (told || cmd.ProcessState == nil):
		end, _ := ctx.Deadline()
		return fail(-1, ctx.Err(), "gave no answer within %d ms", max(end.Sub(start).Round(time.Millisecond).Milliseconds(), 0))
	case ctx.Err() != nil && (told || cmd.ProcessState == nil):
		return fail(-1, ctx.Err(), "was ended: %v", ctx.Err())
	case cmd.ProcessState == nil:
		return fail(-1, err, "did not start: %v", err)
	case err == nil || errors.Is(err, exec.ErrWaitDelay): // the latter: what it left behind held its pipes open
		return Output{Stdout: stdout.kept.Bytes(), Stderr: stderr.String()}, nil
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return fail(exit.ExitCode(), nil, "ended with status %d", exit.ExitCode())
	case errors.As(err, &exit):
		return fail(-1, nil, "died: %v", exit.ProcessState)
	default:
		return fail(-1, err, "could not be spoken to: %v", err)
	}
}

// live starts a program and waits for its end. It reports whether the program
// was told to end.
func (s Spec) live(ctx context.Context, cmd *exec.Cmd) (told bool, err error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	runtime.LockOSThread() // see dieWithDaemon
	defer runtime.UnlockOSThread()
	dieWithDaemon(cmd)
	if err := cmd.Start(); err != nil {
		return false, err
	}
	ended, watched := make(chan struct{}), make(chan bool)
	go func() { watched <- s.watch(ctx, cmd, ended) }()
	err = cmd.Wait()
	close(ended)
	told = <-watched
	End(cmd)
	return told, err
}

// watch tells a program to end when the context has ended, and makes it end
// after the grace.
func (s Spec) watch(ctx context.Context, cmd *exec.Cmd, ended <-chan struct{}) (told bool) {
	select {
	case <-ended:
		return false
	case <-ctx.Done():
	}
	told = ask(cmd) == nil
	grace := time.NewTimer(s.grace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
		End(cmd)
	}
	return told
}

// bounded keeps what is written to it up to a limit. What comes after is read
// and thrown away, so that the program can still hear that it is to end.
type bounded struct {
	kept    bytes.Buffer // not embedded: its ReadFrom knows no limit
	limit   int
	over    func() // called once
	flooded bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if !b.flooded && b.kept.Len()+len(p) > b.limit {
		b.flooded = true
		b.kept.Reset()
		b.over()
	}
	if b.flooded {
		return len(p), nil
	}
	return b.kept.Write(p)
}

// Tail keeps the end of what a program says on its standard error. It may be
// written to and read at the same time.
type Tail struct {
	spec Spec

	mu  sync.Mutex
	end []byte
	cut bool // something came before it
}

// Tail returns an empty tail for a run of the program.
func (s Spec) Tail() *Tail { return &Tail{spec: s} }

// Write implements io.Writer.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if over := len(t.end) - t.keep(); over > 0 {
		t.end = append(t.end[:0], t.end[over:]...)
		t.cut = true
	}
	return len(p), nil
}

// keep is how many bytes are held: so many more than are shown as it takes to
// recognise a secret that reaches into them.
func (t *Tail) keep() int {
	if len(t.spec.secrets) == 0 {
		return maxStderr
	}
	return maxStderr + len(t.spec.secrets[0])
}

// String returns at most the last 8 KiB, trimmed, with control characters
// escaped and the values of named variables hidden.
func (t *Tail) String() string {
	t.mu.Lock()
	text := string(t.end)
	if t.cut {
		text = text[t.partial():]
	}
	t.mu.Unlock()
	text = strings.ToValidUTF8(t.spec.Redact(text), "\uFFFD")
	return lastOf(engine.EscapeLine(strings.TrimSpace(text)), maxStderr)
}

// partial returns how many bytes at the start are the rest of a secret whose
// beginning is lost.
func (t *Tail) partial() int {
	longest := 0
	for _, secret := range t.spec.secrets {
		for n := min(len(secret)-1, len(t.end)); n > longest; n-- {
			if strings.HasSuffix(secret, string(t.end[:n])) {
				longest = n
			}
		}
	}
	return longest
}

// lastOf cuts a text at its front to at most limit bytes, between characters.
func lastOf(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return "…" + strings.TrimLeftFunc(s[len(s)-limit+len("…"):], func(r rune) bool { return r == '\uFFFD' })
}
