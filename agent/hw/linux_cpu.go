//go:build linux

package hw

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"bessemer/agent/wire"
)

// cpu reads /proc/cpuinfo; x86 and ARM use different words in it.
func (m *Linux) cpu() wire.CPU {
	c := wire.CPU{Architecture: machineArch()}
	for line := range strings.Lines(attr(m.path("proc/cpuinfo"))) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "processor":
			c.Count++
		case "model name", "Model", "cpu model":
			c.ModelName = value
		case "cpu MHz":
			c.Frequency = value
		case "flags", "Features":
			if c.Flags == nil {
				c.Flags = strings.Fields(value)
			}
		}
	}
	// The highest frequency says more than that of this moment.
	if khz, err := strconv.Atoi(attr(m.path("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"))); err == nil {
		c.Frequency = fmt.Sprintf("%.4f", float64(khz)/1000)
	}
	return c
}

// machineArch is the kernel's word for it, as in "uname -m".
func machineArch() string {
	var un unix.Utsname
	if err := unix.Uname(&un); err != nil {
		return runtime.GOARCH
	}
	return unix.ByteSliceToString(un.Machine[:])
}

// memory is what the kernel has, and what is fitted.
func (m *Linux) memory(d dmi) wire.Memory {
	mem := wire.Memory{PhysicalMB: d.memoryMB()}
	for line := range strings.Lines(attr(m.path("proc/meminfo"))) {
		if words := strings.Fields(line); len(words) >= 2 && words[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(words[1], 10, 64) // 0 is "unknown"
			mem.Total = kib << 10
		}
	}
	if mem.PhysicalMB == 0 { // no DMI: what the kernel has, and a little for what firmware keeps
		mem.PhysicalMB = (mem.Total>>20 + 127) / 128 * 128
	}
	return mem
}
