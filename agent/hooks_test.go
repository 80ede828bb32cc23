package agent

import (
	"errors"
	"net"
	"strings"
	"testing"

	"bessemer/agent/wire"
)

// TestHooks: the agent serves on the listener that it is given, takes its
// pauses from the given dice, and Before has the last word on each command.
func TestHooks(t *testing.T) {
	r := newRig(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	r.config.Listener = ln
	r.config.Before = func(command string) error {
		if asked = append(asked, command); command == "standby.sync" {
			return errors.New("not today")
		}
		return nil
	}
	thrown := make(chan struct{}, 1)
	r.config.Dice = func() float64 {
		select {
		case thrown <- struct{}{}:
		default:
		}
		return 0.5
	}
	r.start()
	<-thrown // for the pause after the first heartbeat
	if !strings.HasSuffix(r.first.CallbackURL, ln.Addr().String()) {
		t.Errorf("the agent is at %s, not at the listener %s", r.first.CallbackURL, ln.Addr())
	}
	if c := r.command("standby.sync", nil, true); c.Status != wire.Failed || c.Error.Details != "not today" {
		t.Errorf("a refused command: %+v", c)
	}
	if c := r.command("standby.get_partition_uuids", nil, true); c.Status != wire.Succeeded {
		t.Errorf("a command that is not refused: %+v", c)
	}
	if got := strings.Join(asked, " "); got != "standby.sync standby.get_partition_uuids" {
		t.Errorf("asked about %s", got)
	}
}
