package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bessemer/bmc"
)

// startTimeout is how long QEMU may take to answer on its control socket.
const startTimeout = time.Minute

// A process is one run of QEMU.
type process struct {
	cmd     *exec.Cmd
	monitor *qmp
	said    *tail
	waited  sync.Once
	waitErr error
}

// launch starts QEMU and returns once it obeys its control socket.
func (c QEMUConfig) launch(ctx context.Context, boot bmc.Boot) (*process, error) {
	if boot.Mode == UEFI {
		if err := copyOnce(c.Vars, c.vars()); err != nil {
			return nil, fmt.Errorf("copy uefi variables: %w", err)
		}
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	line := append(slices.Clone(c.Command), qemuBinary)
	line = append(line, c.args(boot)...)
	p := &process{cmd: exec.Command(line[0], line[1:]...), said: &tail{}}
	p.cmd.ExtraFiles = []*os.File{theirs}
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = p.cmd.Start()
	_ = theirs.Close() // QEMU has its own
	if err != nil {
		_ = ours.Close()
		return nil, fmt.Errorf("start qemu (Debian package qemu-system-x86): %w", err)
	}
	p.monitor = newQMP(ours)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.monitor.call(ctx, "qmp_capabilities"); err != nil {
		return nil, fmt.Errorf("start qemu of machine %s: %w", c.Name, errors.Join(err, p.end(), p.wait()))
	}
	return p, nil
}

// wait returns how the process ended and what it said.
func (p *process) wait() error {
	p.waited.Do(func() {
		p.waitErr = p.cmd.Wait()
		if s := p.said.String(); s != "" {
			p.waitErr = errors.Join(p.waitErr, errors.New(s))
		}
		if p.waitErr == nil {
			p.waitErr = errors.New("exit status 0")
		}
	})
	return p.waitErr
}

// end kills the process and waits for it and for the reader of its monitor.
func (p *process) end() error {
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	_ = p.wait() // that it was killed is known
	_ = p.monitor.conn.Close()
	for range p.monitor.events {
		continue
	}
	return err
}

// socketPair returns two connected sockets: one for this process, one for a
// child to inherit.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("create control socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "monitor"), os.NewFile(uintptr(fds[1]), "monitor")
	conn, err := net.FileConn(ours)
	_ = ours.Close() // FileConn has duplicated it
	if err != nil {
		_ = theirs.Close()
		return nil, nil, fmt.Errorf("create control socket: %w", err)
	}
	return conn, theirs, nil
}

func copyOnce(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

// tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - 4096; over > 0 {
		t.buf = t.buf[over:]
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}
