package boot

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Of the kernel's include/uapi/linux/input-event-codes.h.
const (
	eventKey  = 1
	keyPower  = 116
	eventSize = 24 // of struct input_event on 64-bit machines: two words of time, type, code, value
)

// watchButtons powers the machine off when its power button is pressed, which
// is also what a BMC does for a graceful shutdown (quirk B-11).
func (s *System) watchButtons(ctx context.Context) error {
	var readers sync.WaitGroup
	defer readers.Wait()
	open := map[string]bool{}
	for ctx.Err() == nil {
		files, _ := filepath.Glob("/dev/input/event*") // the pattern is right
		for _, file := range files {
			if f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0); !open[file] && err == nil {
				open[file] = true
				readers.Go(func() { s.readButton(ctx, f) })
			} else if err == nil {
				f.Close()
			}
		}
		pause(ctx, 5*time.Second)
	}
	return ctx.Err()
}

func (s *System) readButton(ctx context.Context, f *os.File) {
	defer f.Close() // twice is harmless
	defer context.AfterFunc(ctx, func() { f.Close() })()
	event := make([]byte, eventSize)
	for {
		n, err := f.Read(event)
		if err != nil { // the device is gone, or the system ends
			return
		}
		if n == eventSize && powerPressed(event) {
			s.say("power button pressed: powering off")
			time.Sleep(100 * time.Millisecond) // for the consoles
			s.warn(powerOff())
		}
	}
}

func powerPressed(event []byte) bool {
	kind, code := binary.NativeEndian.Uint16(event[16:]), binary.NativeEndian.Uint16(event[18:])
	return kind == eventKey && code == keyPower && binary.NativeEndian.Uint32(event[20:]) == 1
}
