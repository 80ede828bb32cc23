package firmware

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A command runs with expanded arguments; nil is success.
type command func(s *shell, ctx context.Context, args []string) error

// find returns the command of a name: those of iPXE that scripts for booting
// use. Any other is not found, as in a build without it.
func find(name string) command {
	switch name {
	case "echo":
		return (*shell).echo
	case "set":
		return (*shell).assign
	case "clear":
		return (*shell).clear
	case "isset":
		return (*shell).isset
	case "iseq":
		return (*shell).iseq
	case "inc":
		return (*shell).inc
	case "goto":
		return (*shell).jump
	case "sleep":
		return (*shell).sleep
	case "exit":
		return (*shell).exit
	case "prompt":
		return (*shell).prompt
	case "reboot":
		return ends(Reboot)
	case "poweroff":
		return ends(Off)
	case "shell", "config", "login":
		return (*shell).stand
	case "ifopen", "ifclose", "ifstat", "route", "imgstat":
		return func(*shell, context.Context, []string) error { return nil }
	}
	return findBoot(name)
}

// newer are commands that old builds, as network cards carry them, do not have
// (D-12).
var newer = map[string]bool{"inc": true, "ifconf": true, "prompt": true, "poweroff": true, "clear": true}

// options takes the options before the arguments; takes says of each whether a
// value follows it.
func options(args []string, takes map[string]bool) (opts map[string]string, rest []string, err error) {
	opts = map[string]string{}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "-" {
		name, value, joined := strings.Cut(args[0], "=")
		args = args[1:]
		valued, known := takes[name]
		switch {
		case !known:
			return nil, nil, fmt.Errorf("unrecognised option %q", name)
		case valued && !joined:
			if len(args) == 0 {
				return nil, nil, fmt.Errorf("option %q requires an argument", name)
			}
			value, args = args[0], args[1:]
		}
		opts[strings.TrimLeft(name, "-")] = value
	}
	return opts, args, nil
}

func (s *shell) echo(_ context.Context, args []string) error {
	s.on.say("%s", strings.Join(args, " "))
	return nil
}

// assign is "set": a name and a value, which may have blanks.
func (s *shell) assign(_ context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	return s.store(args[0], strings.Join(args[1:], " "))
}

func (s *shell) clear(_ context.Context, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	return s.store(args[0], "")
}

var errNot = errors.New("no")

func (s *shell) isset(_ context.Context, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	if args[0] == "" {
		return errNot
	}
	return nil
}

func (s *shell) iseq(_ context.Context, args []string) error {
	if len(args) != 2 {
		return errUsage
	}
	if args[0] != args[1] {
		return errNot
	}
	return nil
}

// inc adds to a number; one that is not set is 0.
func (s *shell) inc(_ context.Context, args []string) error {
	by := int64(1)
	var err error
	switch len(args) {
	case 1:
	case 2:
		if by, err = strconv.ParseInt(args[1], 0, 32); err != nil {
			return errUsage
		}
	default:
		return errUsage
	}
	n, _ := strconv.ParseInt(s.setting(args[0]), 0, 32) // what is no number is 0
	return s.store(args[0], strconv.FormatInt(n+by, 10))
}

func (s *shell) jump(_ context.Context, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	for i, l := range s.current {
		if l.label == args[0] {
			return &jumping{i}
		}
	}
	return fmt.Errorf("no label %q", args[0])
}

func (s *shell) sleep(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	n, err := strconv.ParseUint(args[0], 0, 16)
	if err != nil {
		return errUsage
	}
	return s.on.wait(ctx, time.Duration(n)*time.Second)
}

func (s *shell) exit(_ context.Context, args []string) error {
	status := uint64(0)
	var err error
	if len(args) > 0 {
		if status, err = strconv.ParseUint(args[0], 0, 31); err != nil {
			return errUsage
		}
	}
	s.chosen = s.chosen || s.depth > 1
	return &exiting{int(status)}
}

// prompt waits for a key that nobody presses.
func (s *shell) prompt(ctx context.Context, args []string) error {
	opts, rest, err := options(args, map[string]bool{"--key": true, "-k": true, "--timeout": true, "-t": true, "--set": true, "-s": true})
	if err != nil {
		return err
	}
	s.on.say("%s", strings.Join(rest, " "))
	ms, err := strconv.ParseUint(opts["timeout"]+opts["t"], 0, 31)
	if err != nil || ms == 0 {
		return s.stand(ctx, nil)
	}
	if err := s.on.wait(ctx, time.Duration(ms)*time.Millisecond); err != nil {
		return err
	}
	return errNot
}

// ends is a command that ends iPXE.
func ends(a Action) command {
	return func(s *shell, _ context.Context, args []string) error {
		if _, _, err := options(args, map[string]bool{"--warm": false, "-w": false, "--setup": false, "-s": false}); err != nil {
			return err
		}
		return &leaving{action: a}
	}
}

// stand waits at a prompt for somebody to type.
func (s *shell) stand(context.Context, []string) error {
	s.on.say("iPXE>")
	return &leaving{err: fmt.Errorf("iPXE is at a prompt: %w", ErrStuck)}
}
