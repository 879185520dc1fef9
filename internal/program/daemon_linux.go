package program

import (
	"os/exec"
	"syscall"
)

// dieWithDaemon has the kernel kill a program when the daemon is gone, however
// that ended. It does so when the thread ends that started the program: whoever
// starts it stays on that thread until the program has ended.
func dieWithDaemon(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }
