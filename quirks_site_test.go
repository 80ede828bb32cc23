package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"bessemer/agent/disk"
	"bessemer/bmc/sim/rack"
	"bessemer/bmc/sim/tinyos"
	"bessemer/configs"
	"bessemer/server"
	"bessemer/server/client"
)

// sitePace is how fast simulated machines live: what takes a machine a minute
// takes them 1.8 s.
const sitePace = 0.03

// siteCall is how long the appliance waits for a controller's answer.
const siteCall = 6 * time.Second

// siteSeed fixes everything that is random about the machines.
const siteSeed = 2026

// A site is an appliance and a rack of simulated machines, which live in the
// test's process until its end.
type site struct {
	cl   *client.Client
	rack *rack.Rack
	log  *journalled
}

// newSite opens both. Nothing is enrolled.
func newSite(t *testing.T) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "quirks") // short: it is part of a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s := &site{log: &journalled{}}
	log := zerolog.New(s.log).Level(zerolog.InfoLevel).With().Timestamp().Logger()
	app, err := server.Open(t.Context(), server.Options{Config: siteConfig(dir), Types: types, Version: "quirks", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	// In turn, so that a trial's protocol is that of its place.
	s.rack, err = rack.New(rack.Options{
		Dir: filepath.Join(dir, "rack"), Wire: app.Wire(), Seed: siteSeed, BMC: "mixed", Pace: sitePace, Log: log, Version: "quirks",
	})
	if err == nil {
		err = s.rack.Open()
	}
	if err != nil {
		t.Fatal(errors.Join(err, app.Close()))
	}
	app.Add("rack", s.rack.Run)
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the appliance ended with %v", err)
		}
	})
	if s.cl, err = client.New(app.URL(), nil); err != nil {
		t.Fatal(err)
	}
	for name, image := range siteImages {
		s.addImage(t, name, image())
	}
	return s
}

// siteConfig is an appliance that waits seconds for what takes real machines
// minutes.
func siteConfig(dir string) configs.Config {
	c := configs.Default()
	c.DataDir = filepath.Join(dir, "data")
	c.API.Listen, c.API.Auth = "127.0.0.1:0", "none"
	c.Provisioning.Interface, c.Provisioning.Port = configs.Simulated, 0
	c.Conductor.Hostname = "quirks"
	c.Conductor.MaxBoots, c.Conductor.MaxImageStreams = 24, 24 // so that each is quick once it has been started
	c.Conductor.BootTimeout = configs.Duration(20 * time.Second)
	c.Conductor.HeartbeatTimeout = configs.Duration(20 * time.Second)
	c.Conductor.PowerSyncInterval = configs.Duration(10 * time.Second)
	c.BMC.ConnectTimeout = configs.Duration(3 * time.Second)
	c.BMC.CallTimeout = configs.Duration(siteCall)
	c.BMC.PowerTimeout = configs.Duration(8 * time.Second)
	return c
}

// Images that the appliance keeps.
const (
	tinyGPT  = "tiny"
	tinyMBR  = "tiny-mbr"
	tinyUEFI = "tiny-uefi" // does not start in a BIOS
)

var siteImages = map[string]func() []byte{tinyGPT: tinyos.Image, tinyMBR: tinyos.MBRImage, tinyUEFI: uefiImage}

// uefiImage is the tiny image without boot code, and with a loader that is not
// where firmware looks by itself.
func uefiImage() []byte {
	image := bytes.Clone(tinyos.Image())
	clear(image[:440])
	at := bytes.Index(image, []byte("MZ\x00\x00\x00\x00"))
	fat, err := disk.MakeFAT(map[string][]byte{"EFI/tiny/shimx64.efi": image[at : at+1024]}, "TINY-ESP", 4096)
	if err != nil {
		panic(err) // constants in
	}
	copy(image[64<<10:], fat)
	return image
}

func (s *site) addImage(t *testing.T, name string, image []byte) {
	t.Helper()
	for end := time.Now().Add(client.Patience); ; time.Sleep(20 * time.Millisecond) {
		resp, err := s.cl.Do(t.Context(), http.MethodPut, "/api/v1/images/"+name, "application/octet-stream", bytes.NewReader(image))
		if err == nil {
			_ = resp.Body.Close()
			return
		}
		if _, starting := errors.AsType[*client.Unreachable](err); !starting || time.Now().After(end) {
			t.Fatalf("add image %s: %v", name, err)
		}
	}
}

// journalled keeps what is logged.
type journalled struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (j *journalled) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// with returns the lines that have one of some words in them.
func (j *journalled) with(words ...string) (lines []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range bytes.Lines(j.text.Bytes()) {
		for _, w := range words {
			if bytes.Contains(line, []byte(w)) {
				lines = append(lines, string(line))
				break
			}
		}
	}
	return lines
}

// describe is a machine and the end of its journal, for errors.
func describe(m *rack.Machine) string {
	events, _ := m.Journal()
	st := m.Status()
	text := fmt.Sprintf("%s (%s, %s) is %s/%s %s", m.Name(), st.Profile, st.BMC, st.Power, st.Stage, st.Why)
	for _, e := range events[max(0, len(events)-40):] {
		text += fmt.Sprintf("\n  %s start %d %s %s %s %s %s", e.Time.Format("05.000"), e.Start, e.Kind, e.By, e.What, e.Text, e.Disk)
	}
	return text
}
