// Package hardware is what simulated machines are made of: profiles, which are
// the shapes of machines that are sold, and the [Machine] that the real agent
// runs on, with its quirks of inventory, disks and firmware variables.
package hardware

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bessemer/bmc/sim"
)

// Buses that QEMU's machines do not have.
const (
	SAS  sim.Bus = "sas"
	EMMC sim.Bus = "mmc"
)

// A Profile is the shape of a machine, with its timings at pace 1.
type Profile struct {
	Name         string // "dell-r640"
	Manufacturer string
	Model        string
	CPU          string // model name
	MHz          int
	CPUs         int // threads
	MemoryMiB    int
	NICs         []NIC
	Disks        []Disk
	Modes        []string      // boot modes, the default first
	Driver       string        // preferred: redfish or ipmi
	POST         time.Duration // from power on to the boot loader
	Power        time.Duration // from a power command until the state has changed
	BMC          time.Duration // the controller's usual time for an answer
	HTTPBoot     bool          // UEFI asks for an HTTP URL (DHCP option 60 HTTPClient)
	ROMIsIPXE    bool          // the network card brings iPXE

	serial string // of the machine, as a pattern: 0 a digit, A a letter, X either; others stand for themselves
}

// A NIC is a network card's port.
type NIC struct {
	Name    string // Linux's: eno1
	Vendor  string // PCI numbers, as the agent reports them
	Product string
	Driver  string
	PCI     string
	SpeedM  int // Mbit/s
}

// A Disk is a disk's model.
type Disk struct {
	Vendor     string
	Model      string
	Bus        sim.Bus
	Size       int64 // bytes
	Rotational bool
	Physical   int // physical sector size; 0: 512
}

// Find returns a profile by its name.
func Find(name string) (Profile, error) {
	all := Profiles()
	i := slices.IndexFunc(all, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		var names []string
		for _, p := range all {
			names = append(names, p.Name)
		}
		return Profile{}, fmt.Errorf("machine profile %q is unknown; there are %s", name, strings.Join(names, ", "))
	}
	return all[i], nil
}

// Build makes a machine of the profile. What tells it from others is fixed by
// the seed and the index, which must be below 2^24; its disks are sparse files
// in dir. MACs are locally administered, and differ in all machines of a seed.
func (p Profile) Build(name string, index int, seed uint64, dir string) sim.Spec {
	dice := rand.New(rand.NewPCG(seed, uint64(index)<<8|0x68))
	s := sim.Spec{
		Name: name, UUID: uuid(dice), Manufacturer: p.Manufacturer, Model: p.Model, Serial: fill(dice, p.serial),
		MemoryMiB: p.MemoryMiB, CPUs: p.CPUs, Modes: slices.Clone(p.Modes),
	}
	salt := rand.New(rand.NewPCG(seed, 0x6d6163)).Uint32()
	for i, n := range p.NICs {
		mac := fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", byte(salt), byte(index>>16), byte(index>>8), byte(index), i)
		s.NICs = append(s.NICs, sim.NIC{MAC: mac, Model: n.Driver, SpeedM: n.SpeedM})
	}
	for i, d := range p.Disks {
		s.Disks = append(s.Disks, sim.Disk{
			Name: fmt.Sprintf("Disk%d", i), Bus: d.Bus, Size: d.Size, Model: d.Model,
			Serial: fill(dice, "SXXXXX0XXXXXX"), Path: filepath.Join(dir, fmt.Sprintf("disk%d.raw", i)),
		})
	}
	return s
}

// fill replaces the places of a pattern.
func fill(dice *rand.Rand, pattern string) string {
	const digits, letters = "0123456789", "BCDFGHJKLMNPQRSTVWXZ"
	b := []byte(pattern)
	for i, c := range b {
		switch c {
		case '0':
			b[i] = digits[dice.IntN(len(digits))]
		case 'A':
			b[i] = letters[dice.IntN(len(letters))]
		case 'X':
			b[i] = (digits + letters)[dice.IntN(len(digits)+len(letters))]
		}
	}
	return string(b)
}

// uuid is of version 4.
func uuid(dice *rand.Rand) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], dice.Uint64())
	binary.BigEndian.PutUint64(b[8:], dice.Uint64())
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// wwn is a disk's world wide name (NAA 5): as fixed as its serial number.
func wwn(serial string) string {
	h := fnv.New64a()
	h.Write([]byte(serial)) // never fails
	return fmt.Sprintf("0x5000c5%010x", h.Sum64()>>24)
}
