//go:build !unix

package program

import "os/exec"

// inherited are the variables that every program is given where the daemon has
// them.
func inherited() []string {
	return []string{"PATH", "PATHEXT", "SystemRoot", "ComSpec", "USERPROFILE", "TEMP", "TMP", "LANG", "TZ"}
}

// group does nothing: here a program is ended alone, and at once.
func group(*exec.Cmd) {}

// ask ends the program.
func ask(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// End does nothing: there is no group to end.
func End(*exec.Cmd) {}
