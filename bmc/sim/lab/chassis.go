//go:build linux

package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/store"
)

// askChassis passes ipmi_sim's chassis command to the test that runs it and
// prints the answer.
func askChassis(socket string, args []string, out io.Writer) error {
	conn, err := net.DialTimeout("unix", socket, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(conn, strings.Join(args, " ")); err != nil {
		return err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 4096))
	if err != nil {
		return err
	}
	if why, failed := strings.CutPrefix(string(answer), "error: "); failed {
		return errors.New(strings.TrimSpace(why))
	}
	_, err = out.Write(answer)
	return err
}

// serveChassis answers chassis commands for a machine until stopped.
func serveChassis(t testing.TB, m sim.Machine, socket string) (stop func()) {
	t.Helper()
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			// One at a time: so is a controller.
			answerChassis(m, conn)
		}
	}()
	return func() {
		_ = lis.Close()
		<-ended
	}
}

func answerChassis(m sim.Machine, conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	line, err := bufio.NewReader(io.LimitReader(conn, 1024)).ReadString('\n')
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	answer, err := chassis(ctx, m, strings.Fields(line))
	if err != nil {
		answer = "error: " + err.Error()
	}
	_, _ = fmt.Fprintln(conn, answer)
}

// chassis does one command of ipmi_sim: "get NAME..." asks for values, "set
// NAME VALUE..." sets them.
func chassis(ctx context.Context, m sim.Machine, args []string) (string, error) {
	if len(args) < 2 {
		return "", fmt.Errorf("incomplete command %q", args)
	}
	var answer []string
	switch verb, names := args[0], args[1:]; verb {
	case "get":
		for _, name := range names {
			v, err := chassisGet(m, name)
			if err != nil {
				return "", err
			}
			answer = append(answer, name+":"+v)
		}
	case "set":
		for ; len(names) >= 2; names = names[2:] {
			if err := chassisSet(ctx, m, names[0], names[1]); err != nil {
				return "", err
			}
		}
	default:
		return "", fmt.Errorf("unknown command %q", verb)
	}
	return strings.Join(answer, "\n"), nil
}

// bootNames are ipmi_sim's words; its "default" is the hard disk.
var bootNames = map[string]bmc.BootDevice{"none": "", "pxe": bmc.PXE, "default": bmc.Disk, "cdrom": bmc.CDROM}

func chassisGet(m sim.Machine, name string) (string, error) {
	switch name {
	case "power":
		if m.PowerState() == store.PowerOff {
			return "0", nil
		}
		return "1", nil
	case "boot":
		for word, d := range bootNames {
			if d == m.Boot().Device {
				return word, nil
			}
		}
	}
	return "", fmt.Errorf("cannot get %q", name)
}

func chassisSet(ctx context.Context, m sim.Machine, name, value string) error {
	switch {
	case name == "power" && value == "1":
		return m.Power(ctx, bmc.On)
	case name == "power" && value == "0":
		return m.Power(ctx, bmc.ForceOff)
	case name == "reset":
		return m.Power(ctx, bmc.Reset)
	case name == "shutdown":
		return m.Power(ctx, bmc.SoftOff)
	case name == "boot":
		d, ok := bootNames[value]
		if !ok {
			return fmt.Errorf("boot device %q: %w", value, sim.ErrBootDevice)
		}
		return m.SetBoot(bmc.Boot{Device: d})
	}
	return fmt.Errorf("cannot set %q to %q", name, value)
}
