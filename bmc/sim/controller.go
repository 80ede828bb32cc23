package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"bessemer/bmc/sim/flaw"
	"bessemer/store"
)

// A Controller is the part of a management controller that does not depend on
// the protocol: Redfish and IPMI show the same sensors, log and attributes of
// one machine. Its methods may be used concurrently.
type Controller struct {
	Machine Machine
	Flaws   *flaw.Set // nil: none
	Pace    float64   // what the controller's own waits are multiplied with; 0 is 1

	mu      sync.Mutex
	pulse   pulse
	secure  secure
	booted  time.Time
	log     []LogEntry
	lastLog int
	bios    map[string]any // attributes, as they are
	pending map[string]any // from the next start on
	fw      []Firmware
	media   []Media
}

// A Sensor is one reading.
type Sensor struct {
	Number int // IPMI sensor number, from 1
	Name   string
	Unit   string // Cel, RPM, W, V
	Value  float64
	High   float64 // critical above; 0: none
}

// A LogEntry is one entry of the system event log.
type LogEntry struct {
	ID       int
	Time     time.Time
	Severity string // OK, Warning, Critical
	Text     string
}

// Firmware is a component that has a version and may be updated.
type Firmware struct {
	ID, Name, Version string
	Updateable        bool
}

// Media is a virtual drive.
type Media struct {
	ID             string   // "CD", "Floppy"
	Types          []string // as Redfish says: CD, DVD, Floppy, USBStick
	Image          string   // URL; "" for empty
	WriteProtected bool
}

// maxLog is how many entries the log keeps.
const maxLog = 512

// NewController returns the controller of a machine, with nothing in its log.
func NewController(m Machine, flaws *flaw.Set) *Controller {
	return &Controller{
		Machine: m, Flaws: flaws, booted: time.Now(),
		bios: map[string]any{
			"ProcVirtualization": "Enabled", "SriovGlobalEnable": "Enabled", "LogicalProc": "Enabled",
			"SysProfile": "PerfPerWatt", "PxeDev1EnDis": "Enabled", "BootRetryCount": 3,
		},
		pending: map[string]any{},
		fw: []Firmware{
			{ID: "BMC", Name: "Management controller", Version: "1.0", Updateable: true},
			{ID: "BIOS", Name: "System firmware", Version: "2.4.1", Updateable: true},
			{ID: "NIC", Name: "Network card", Version: "21.80.9", Updateable: true},
		},
		media: []Media{{ID: "CD", Types: []string{"CD", "DVD"}, WriteProtected: true}, {ID: "Floppy", Types: []string{"Floppy", "USBStick"}}},
	}
}

// Sensors reads the sensors: a machine that is on is warmer, louder and draws
// more. The values depend on the machine and the minute alone.
func (c *Controller) Sensors() []Sensor {
	load := 0.1
	if c.Machine.PowerState() == store.PowerOn {
		load = 1
	}
	wave := math.Sin(float64(time.Now().Unix()/60+int64(len(c.Machine.Spec().Serial))) / 7)
	return []Sensor{
		{1, "Inlet Temp", "Cel", math.Round(22 + 2*wave), 42},
		{2, "CPU1 Temp", "Cel", math.Round(28 + 30*load + 5*load*wave), 95},
		{3, "Fan1", "RPM", math.Round((6000*load+300*wave*load)/100) * 100, 0},
		{4, "Fan2", "RPM", math.Round((6100*load+300*wave*load)/100) * 100, 0},
		{5, "Pwr Consumption", "W", math.Round(12 + 220*load + 20*load*wave), 0},
		{6, "12V", "V", 12.1, 13.2},
	}
}

// Log appends an entry to the system event log; the oldest of a full one goes.
func (c *Controller) Log(severity, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastLog++
	c.log = append(c.log, LogEntry{c.lastLog, time.Now().Truncate(time.Second), severity, fmt.Sprintf(format, args...)})
	if len(c.log) > maxLog {
		c.log = c.log[1:]
	}
}

// Entries returns the system event log, oldest first.
func (c *Controller) Entries() []LogEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
}

// ClearLog empties the system event log.
func (c *Controller) ClearLog() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = nil
}

// BIOS returns the firmware's attributes, and those set for the next start.
func (c *Controller) BIOS() (now, pending map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.bios), maps.Clone(c.pending)
}

// SetBIOS sets attributes from the next start on; unknown ones are refused, and
// then none is set.
func (c *Controller) SetBIOS(attributes map[string]any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range attributes {
		if _, ok := c.bios[name]; !ok {
			return fmt.Errorf("BIOS attribute %q is unknown", name)
		}
	}
	maps.Copy(c.pending, attributes)
	return nil
}

// Started tells the controller that the machine starts: what was pending holds.
func (c *Controller) Started() {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(c.bios, c.pending)
	clear(c.pending)
	c.secure.on = c.secure.next
}

// Inventory returns the firmware of the machine's components.
func (c *Controller) Inventory() []Firmware {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.fw)
}

// Media returns the virtual drives.
func (c *Controller) Media() []Media {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.media)
}

// SetMedia inserts an image into a virtual drive, or ejects it with image "".
func (c *Controller) SetMedia(id, image string, writeProtected bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.media, func(m Media) bool { return m.ID == id })
	if i < 0 {
		return fmt.Errorf("virtual drive %q does not exist", id)
	}
	c.media[i].Image, c.media[i].WriteProtected = image, writeProtected
	return nil
}

// Uptime is how long the controller itself has run.
func (c *Controller) Uptime() time.Duration { return time.Since(c.booted) }
