//go:build unix

package program

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// inherited are the variables that every program is given where the daemon has
// them.
func inherited() []string {
	return []string{"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"}
}

// group puts a command in a process group of its own, so that it can be ended
// with all that it starts.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// ask asks the group of a command to end. A command that has ended is not asked,
// whatever it has left in its group.
func ask(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		return err
	}
	return signal(cmd, syscall.SIGTERM)
}

// End kills what is left of the group of a command that has been waited for. A
// command that did not start is left alone.
func End(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = signal(cmd, syscall.SIGKILL) // none is left: that is what was wanted
	}
}

// signal signals the group. Its number stays taken as long as one of its
// processes is there, so that it cannot be another's.
func signal(cmd *exec.Cmd, sig syscall.Signal) error {
	if cmd.Process.Pid <= 1 { // never the daemon's own group, nor everyone
		return os.ErrProcessDone
	}
	err := syscall.Kill(-cmd.Process.Pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
