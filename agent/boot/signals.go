package boot

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// watchSignals reboots on Ctrl-Alt-Del, which the kernel then sends to process
// 1 as an interrupt, and powers off on SIGTERM and SIGPWR.
func (s *System) watchSignals(ctx context.Context) {
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF); err != nil {
		s.warn(fmt.Errorf("take Ctrl-Alt-Del: %w", err))
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGPWR)
	s.task("signals", func() error {
		defer signal.Stop(signals)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case got := <-signals:
			s.say("%v: going down", got)
			time.Sleep(100 * time.Millisecond) // for the consoles
			if got == unix.SIGINT {
				return reboot()
			}
			return powerOff()
		}
	})
}

// reapChildren ends the zombies of processes whose parents are gone: they
// become children of process 1.
func (s *System) reapChildren(ctx context.Context) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	s.task("reaper", func() error {
		defer signal.Stop(died)
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-died:
			}
			for {
				if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
					break
				}
			}
		}
	})
}

func reboot() error {
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART); err != nil {
		return fmt.Errorf("reboot: %w", err)
	}
	return nil
}

func powerOff() error {
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		return fmt.Errorf("power off: %w", err)
	}
	return nil
}
