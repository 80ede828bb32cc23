package agent

import (
	"errors"
	"fmt"
	"sync"

	"bessemer/agent/wire"
)

// A job is one command that was accepted, running or done.
type job struct {
	con  *console
	done chan struct{} // closed when the command has ended

	mu    sync.Mutex
	state wire.Command
}

func newJob(id, name string, con *console) *job {
	return &job{con: con, done: make(chan struct{}), state: wire.Command{ID: id, Name: name, Status: wire.Running}}
}

// snapshot returns how the command stands.
func (j *job) snapshot() wire.Command {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state
}

// progress tells how far the command has come, to who asks and on the console.
func (j *job) progress(p wire.Progress) {
	j.mu.Lock()
	j.state.Progress = &p
	j.mu.Unlock()
	j.con.progress(p)
}

// finish records the end of the command.
func (j *job) finish(result map[string]any, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state.Status, j.state.Result = wire.Succeeded, result
	if err != nil {
		j.state.Status, j.state.Error = statusOf(err), commandError(err)
	}
	close(j.done)
}

func statusOf(err error) wire.CommandStatus {
	if errors.Is(err, errVersion) {
		return wire.VersionMismatch
	}
	return wire.Failed
}

// A failure is a command's error with the class and the sentence that
// Ironic-Python-Agent has for it; Ironic shows the details.
type failure struct {
	class, message string
	err            error
}

// Error implements error.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap implements error chains.
func (f *failure) Unwrap() error { return f.err }

// fail wraps err, if it is one.
func fail(class, message string, err error) error {
	if err == nil {
		return nil
	}
	return &failure{class, message, err}
}

func commandError(err error) *wire.CommandError {
	e := &wire.CommandError{Type: "CommandExecutionError", Code: 500, Message: "Command execution failed", Details: err.Error()}
	var f *failure
	if errors.As(err, &f) {
		e.Type, e.Message = f.class, f.message
	}
	return e
}

// paramError is a request that names no command or lacks what the command
// needs; the answer is 400.
type paramError struct{ text string }

// Error implements error.
func (p *paramError) Error() string { return p.text }

func badParams(format string, args ...any) error {
	return &paramError{"Invalid command parameters: " + fmt.Sprintf(format, args...)}
}
