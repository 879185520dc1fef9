//go:build !linux

package program

import "os/exec"

// dieWithDaemon does nothing: a program outlives a daemon that is killed.
func dieWithDaemon(*exec.Cmd) {}
