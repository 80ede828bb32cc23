package hardware

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"bessemer/agent/disk"
	"bessemer/agent/hw"
	"bessemer/agent/wire"
	"bessemer/bmc/sim"
	"bessemer/bmc/sim/flaw"
	"bessemer/bmc/sim/tinyos"
)

// Most of the time a machine waits: many wait side by side.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "24") // it is there
	m.Run()
}

// A trial is how a machine with a quirk is deployed, and what is to become of
// it.
type trial struct {
	id      flaw.ID
	profile Profile
	mode    string        // "": UEFI
	image   func() []byte // nil: the tiny image
	hint    map[string]any
	bare    bool // without a config drive, whose writing would put much right
	// fails is what is said where the quirk must end in a failure: by the
	// cleaning, the writing, the boot loader; "" where it must do no harm.
	fails map[string]string
	// check looks at what was done while the quirk was on; may be nil.
	check func(t *testing.T, r *result)
}

// result is what came of a deploy.
type result struct {
	machine  *Machine
	server   *appliance
	write    wire.Command
	system   tinyos.System
	efi      *hw.FakeEFI
	deployed map[string]bool // disks that the deploy has written to
}

func trials() []trial {
	serial := map[string]any{"serial": "the first disk's"}
	return []trial{
		{id: "N-01"},
		{id: "N-02"},
		{id: "N-03", profile: dellR640},
		{id: "N-08", check: allCards},
		{id: "N-09", check: allCards},
		{id: "K-01", bare: true},
		{id: "K-01"},
		{id: "K-02", check: said("put into a FAT file system")},
		{id: "K-03", image: tinyos.MBRImage, check: reachableByMBR},
		{id: "K-03", image: tinyos.MBRImage, mode: sim.BIOS},
		{id: "K-05", profile: dellR640, hint: serial, check: onlyFirst},
		{id: "K-05"},
		{id: "K-07", profile: dellR640, hint: serial},
		{id: "K-07"},
		{id: "K-08"},
		{id: "K-08", image: tinyos.MBRImage, mode: sim.BIOS, bare: true},
		{id: "K-09", fails: map[string]string{"clean": "cluster file system"}, check: untouchedLUN},
		{id: "K-10"},
		{id: "K-14"},
		{id: "K-17", check: firstByName},
		{id: "K-18", fails: map[string]string{"write_image": "no space left"}, check: fetchedOnce},
		{id: "K-20", profile: dellR640, hint: serial, check: onlyFirst},
		{id: "K-20", hint: serial, check: onlyFirst},
		{id: "K-23"},
		{id: "K-23", image: tinyos.MBRImage, mode: sim.BIOS, bare: true},
		{id: "K-25", check: said("old config drive removed")},
		{id: "V-14"},
		{id: "U-04", check: from("EFI/BOOT/BOOTX64.EFI")},
		{id: "U-06", check: from("EFI/BOOT/BOOTX64.EFI")},
		{id: "U-07"},
		{id: "U-07", mode: sim.BIOS},
		{id: "U-07", image: uefiOnlyImage, fails: map[string]string{"install_bootloader": "boot mode mismatch"}},
		{id: "A-03"},
		{id: "A-04"},
		{id: "A-05", check: fetchedTwice},
	}
}

// TestQuirks deploys each machine with its quirk off and on, by the real agent:
// clean, write, config drive, boot loader, power off; then the machine must boot
// what was written, and be empty after it was cleaned again.
func TestQuirks(t *testing.T) {
	sound := map[string]bool{} // machines that have been tried without a quirk
	for _, tr := range trials() {
		if tr.profile.Name == "" {
			tr.profile = tiny
		}
		if tr.mode == "" {
			tr.mode = sim.UEFI
		}
		if tr.image == nil {
			tr.image = tinyos.Image
		}
		for _, on := range []bool{false, true} {
			like := fmt.Sprint(tr.profile.Name, tr.mode, tr.bare, tr.hint, hexSum(tr.image()))
			if !on && sound[like] {
				continue
			}
			sound[like] = true
			name := string(tr.id) + " " + tr.profile.Name + " " + tr.mode + map[bool]string{true: " on", false: " off"}[on]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				tr.run(t, on)
			})
		}
	}
}

// TestEveryFlagHasATrial: a quirk of the table that is called a flag is tried
// here, unless only the controller shows it.
func TestEveryFlagHasATrial(t *testing.T) {
	tried := map[flaw.ID]bool{"N-04": true, "N-05": true}
	for _, tr := range trials() {
		tried[tr.id] = true
	}
	for _, r := range flaw.Rows() {
		if r.Status == flaw.Flag && strings.ContainsAny(string(r.ID[0]), "NKUA") && !tried[r.ID] {
			t.Errorf("%s is called a flag, and no trial turns it on", r.ID)
		}
	}
}

func (tr trial) run(t *testing.T, on bool) {
	flaws := flaw.NewSet(1)
	r := &result{efi: &hw.FakeEFI{}, deployed: map[string]bool{}}
	spec := tr.profile.Build("sim-1", 7, 1, t.TempDir())
	c := Config{Spec: spec, Profile: tr.profile, Flaws: flaws, BootMode: tr.mode, BootMAC: spec.NICs[0].MAC, EFI: r.efi, Pace: 0.1}
	node := map[string]any{"properties": map[string]any{}}
	if tr.hint != nil {
		node["properties"] = map[string]any{"root_device": map[string]any{"serial": spec.Disks[0].Serial}}
	}
	r.server = newAppliance(t, spec.NICs[0].MAC)
	flaws.Turn(on, tr.id)
	fails := tr.fails
	if !on {
		fails = nil
	}
	start := func() Config { c.Start++; return c }

	wipe := startRamdisk(t, r.server, start(), node)
	if !expect(t, fails, "clean", wipe.step("clean", "erase_devices_metadata", nil)) {
		tr.look(t, r, wipe.machine, on)
		return
	}
	wipe.stop()
	deploy := start()
	deploy.OnWrite = func(disk string, _, _ int64) { r.deployed[disk] = true }
	write := startRamdisk(t, r.server, deploy, node)
	r.write = write.write(tr.image(), tr.bare)
	if !expect(t, fails, "write_image", r.write) {
		tr.look(t, r, write.machine, on)
		return
	}
	if !expect(t, fails, "install_bootloader", write.command("image.install_bootloader", map[string]any{"target_boot_mode": tr.mode})) {
		return
	}
	expect(t, nil, "power_off", write.command("standby.power_off", nil))
	write.stop()

	c.EFI = r.efi
	var err error
	firm := New(start())
	r.system, err = firm.Boot(t.Context())
	named := r.system.Hostname == "machine-7" && r.system.InstanceUUID == "11111111-2222-4333-8444-555555555555" && len(r.system.SSHKeys) == 1
	if err != nil || named == tr.bare {
		t.Fatalf("the machine boots %+v, %v", r.system, err)
	}
	tr.look(t, r, write.machine, on)

	again := startRamdisk(t, r.server, start(), node)
	expect(t, nil, "clean", again.step("clean", "erase_devices_metadata", nil))
	if s, err := New(start()).Boot(t.Context()); err == nil {
		t.Errorf("a cleaned machine boots %+v", s)
	}
}

func (tr trial) look(t *testing.T, r *result, m *Machine, on bool) {
	r.machine = m
	if on && tr.check != nil {
		tr.check(t, r)
	}
}

// expect holds the end of a command against what is wanted, and reports whether
// the deploy goes on.
func expect(t *testing.T, fails map[string]string, name string, c wire.Command) bool {
	t.Helper()
	want := fails[name]
	switch {
	case want == "" && c.Status != wire.Succeeded:
		t.Fatalf("%s: %+v", name, c.Error)
	case want != "" && (c.Error == nil || !strings.Contains(c.Error.Details, want)):
		t.Fatalf("%s: %s %+v, want a failure with %q", name, c.Status, c.Error, want)
	}
	return want == ""
}

// said looks for words in the outcome of the writing.
func said(words string) func(*testing.T, *result) {
	return func(t *testing.T, r *result) {
		if got, _ := r.write.Result["deploy_result"].(string); !strings.Contains(got, words) {
			t.Errorf("the agent says %q, which lacks %q", got, words)
		}
	}
}

func from(what string) func(*testing.T, *result) {
	return func(t *testing.T, r *result) {
		entries, _ := r.efi.Entries()
		if r.system.From != what || len(entries) > 0 {
			t.Errorf("the machine started from %q, with %d boot entries", r.system.From, len(entries))
		}
	}
}

// allCards: what one card says badly costs nothing of the others.
func allCards(t *testing.T, r *result) {
	inv, err := r.machine.Inventory(t.Context())
	if err != nil || len(inv.Interfaces) != len(r.machine.c.Spec.NICs) || inv.Interfaces[0].MACAddress == "" {
		t.Errorf("%+v, %v", inv.Interfaces, err)
	}
}

// reachableByMBR: everything lies within the first 2 TiB of a larger disk.
func reachableByMBR(t *testing.T, r *result) {
	d, err := r.machine.OpenDisk(r.machine.disks[0].Name, false)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	table, err := disk.ReadTable(d)
	if err != nil || d.Size() < 1<<41 || len(table.Partitions) != 3 || table.Partitions[2].Last >= 1<<32 {
		t.Errorf("a disk of %d bytes has %+v, %v", d.Size(), table.Partitions, err)
	}
}

// onlyFirst: whatever the disks are called, the hinted one was written to.
func onlyFirst(t *testing.T, r *result) {
	if len(r.deployed) != 1 {
		t.Errorf("the deploy wrote to %v", r.deployed)
	}
	for i, d := range r.machine.disks {
		head := make([]byte, 512)
		if f, err := os.Open(d.path); err == nil {
			_, _ = f.ReadAt(head, 0) // of a disk that was not written to nothing may be there
			f.Close()
		}
		if (head[510] == 0x55) != (i == 0) {
			t.Errorf("disk %d: something was written: %v", i, head[510] == 0x55)
		}
	}
}

// firstByName: of two equal disks, it is the same one each time.
func firstByName(t *testing.T, r *result) {
	if !r.deployed["/dev/sdt"] || r.deployed["/dev/vda"] {
		t.Errorf("the deploy wrote to %v, want /dev/sdt, the first by name", r.deployed)
	}
}

func untouchedLUN(t *testing.T, r *result) {
	d, ok := r.machine.find("/dev/sdl")
	b, err := os.ReadFile(d.path)
	if !ok || err != nil || !bytes.Contains(b[1<<20:], []byte("somebody's virtual machines")) {
		t.Errorf("the shared disk was touched (%v)", err)
	}
}

func (r *result) fetched() int {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	return r.server.gets["image"]
}

func fetchedOnce(t *testing.T, r *result) {
	if n := r.fetched(); n != 1 {
		t.Errorf("the image was fetched %d times", n)
	}
}

func fetchedTwice(t *testing.T, r *result) {
	if n := r.fetched(); n != 2 {
		t.Errorf("the image was fetched %d times, want 2: the second from where the first stood still", n)
	}
}

// uefiOnlyImage has neither boot code nor the loader that firmware finds by
// itself.
func uefiOnlyImage() []byte {
	image := bytes.Clone(tinyos.Image())
	clear(image[:440])
	fat, err := disk.MakeFAT(map[string][]byte{"EFI/tiny/shimx64.efi": loaderOf(image)}, "TINY-ESP", 4096)
	if err != nil {
		panic(err)
	}
	copy(image[64<<10:], fat)
	return image
}

// loaderOf cuts the loader out of the tiny image.
func loaderOf(image []byte) []byte {
	i := bytes.Index(image, []byte("MZ\x00\x00\x00\x00"))
	return image[i : i+1024]
}
