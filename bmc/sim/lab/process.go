//go:build linux

package lab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// A Process is a command that runs in the lab until the test ends.
type Process struct {
	Log string // file with all that it said

	cmd   *exec.Cmd
	ended chan struct{}
}

// Start starts a command in the lab. What it says is appended to the file log
// in Dir. env is added to this process's own environment.
func (l *Lab) Start(log string, env []string, name string, args ...string) *Process {
	l.t.Helper()
	file := filepath.Join(l.Dir, log)
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close()
	p := &Process{Log: file, cmd: l.Command(context.Background(), name, args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = f, f
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go p.own(started)
	if err := <-started; err != nil {
		l.t.Fatalf("start %s: %v", strings.Join(p.cmd.Args, " "), err)
	}
	l.t.Cleanup(p.Kill)
	return p
}

// own starts the process from a thread that lives as long as it does, so that
// the kernel kills it when this process dies, however that happens.
func (p *Process) own(started chan<- error) {
	defer close(p.ended)
	pinThread(func() {
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // it ends by our signal, or its log says why
		}
	})
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Kill kills the process, kill -9, and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // may have ended
	<-p.ended
}

// Ended is closed when the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// ExitCode is how an ended process ended, -1 by a signal.
func (p *Process) ExitCode() int {
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}
