package ramdisk

import (
	"bytes"
	"debug/elf"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The agent's binary is put into agent/ by make, before the appliance is
// built. Without make the directory is empty but for .keep, and everything
// still compiles.
//
//go:embed all:agent
var embedded embed.FS

// AgentName is the name of the agent's binary.
const AgentName = "bessemer-agent"

// Agent returns the agent's static binary: the one in this program, else the
// one beside it.
func Agent() ([]byte, error) {
	b, err := embedded.ReadFile("agent/" + AgentName)
	if err == nil {
		return b, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read embedded agent: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the agent beside this program: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), AgentName)
	b, err = os.ReadFile(beside)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this program was built without the ramdisk's agent, and there is no %s: build with make, or put the agent there", beside)
	}
	if err != nil {
		return nil, fmt.Errorf("read the agent beside this program: %w", err)
	}
	return b, nil
}

// machines are the architectures that a ramdisk can be for, by ELF machine.
var machines = map[elf.Machine]string{
	elf.EM_X86_64:    "x86_64",
	elf.EM_AARCH64:   "aarch64",
	elf.EM_RISCV:     "riscv64",
	elf.EM_PPC64:     "ppc64le",
	elf.EM_S390:      "s390x",
	elf.EM_LOONGARCH: "loongarch64",
}

// agentArch checks that the agent can run as the first program of a ramdisk,
// and returns its architecture.
func agentArch(agent []byte) (string, error) {
	f, err := elf.NewFile(bytes.NewReader(agent))
	if err != nil {
		return "", fmt.Errorf("check the agent (%d bytes): %w", len(agent), err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", errors.New("check the agent: it is linked dynamically, and a ramdisk has no libraries; build it with CGO_ENABLED=0")
		}
	}
	return machineName(f.Machine), nil
}

func machineName(m elf.Machine) string {
	if name, ok := machines[m]; ok {
		return name
	}
	return m.String()
}
