// Package boot is what the first process of the ramdisk does: it mounts the
// kernel's file systems, loads the drivers of the hardware that is there, gets
// network addresses, and then runs the agent in the same process. There is no
// other program in the ramdisk.
//
// Nothing here is fatal that the agent can do without. What fails is said on
// the console, which is all that an operator may ever see of this machine.
package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A System is the booted ramdisk, as the agent gets it.
type System struct {
	Cmdline Cmdline
	Console *Console
	Network *Network

	modules *Modules
	devices *devices
	tasks   sync.WaitGroup // goroutines that live as long as the system
}

// Run boots and then runs agent. It must be called by process 1 and never
// returns: when agent returns or panics, the reason stays on the console for a
// minute, and the machine reboots.
func Run(agent func(context.Context, *System) error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &System{}
	err := s.guarded(func() error {
		s.start(ctx)
		if err := s.Network.Wait(ctx); err != nil {
			return err
		}
		s.syncClock(ctx)
		s.say("ready, %s", memory())
		return agent(ctx, s)
	})
	cancel()
	s.end(err)
}

// start does what an init does, in order.
func (s *System) start(ctx context.Context) {
	mounted := mountAll(kernelMounts) // before anything else: /proc tells the command line, /dev has the consoles
	s.Cmdline = readCmdline()
	s.Console = openConsole(s.Cmdline.Debug)
	s.say("%s", s.greeting())
	s.warn(mounted)
	s.warn(writeSysctls())
	s.warn(setHostname("bessemer"))
	s.watchSignals(ctx)
	s.reapChildren(ctx)
	s.warn(s.loadModules(ctx))
	s.warn(mountAll(moduleMounts)) // their file systems may be modules
	s.task("buttons", func() error { return s.watchButtons(ctx) })
	s.Network = newNetwork(s.Cmdline.BootMAC, s.Cmdline.CollectLLDP, s.say)
	s.task("network", func() error { return s.Network.run(ctx) })
}

func (s *System) greeting() string {
	var un unix.Utsname
	_ = unix.Uname(&un)
	return fmt.Sprintf("Bessemer deploy ramdisk, Linux %s, %s", unix.ByteSliceToString(un.Release[:]), memory())
}

// say writes a line to all consoles.
func (s *System) say(format string, args ...any) { s.Console.Printf(format, args...) }

// warn says what went wrong where nothing else is to be done about it.
func (s *System) warn(err error) {
	if err != nil {
		s.say("warning: %v", err)
	}
}

// task runs f beside the agent; end waits for it.
func (s *System) task(name string, f func() error) {
	s.tasks.Go(func() {
		if err := s.guarded(f); err != nil && !errors.Is(err, context.Canceled) {
			s.say("%s ended: %v", name, err)
		}
	})
}

// guarded turns a panic of f into an error: one in process 1 stops the kernel.
func (s *System) guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// crashDelay is how long a reason can be read on the console.
const crashDelay = time.Minute

// end says why the agent ended and reboots.
func (s *System) end(err error) {
	if s.Console == nil { // it failed before there was one
		s.Console = openConsole(false)
	}
	if err == nil {
		err = errors.New("the agent ended")
	}
	s.say("stopped: %v", err)
	s.say("rebooting in %v", crashDelay)
	ended := make(chan struct{})
	go func() { s.tasks.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(5 * time.Second): // a task that hangs must not hold the reboot
	}
	unix.Sync()
	time.Sleep(crashDelay)
	s.warn(reboot())
	os.Exit(1) // the kernel panics, and reboots by itself
}
