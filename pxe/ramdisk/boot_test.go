package ramdisk

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bessemer/agent/wire"
)

// kernelDirEnv names a directory into which a Debian kernel package was
// unpacked ("dpkg -x linux-image-….deb DIR"). With it, the ramdisk is booted
// in QEMU, which takes about a quarter of a minute for each machine.
const kernelDirEnv = "BESSEMER_KERNEL_DIR"

const (
	testNode  = "11111111-2222-4333-8444-555555555555"
	testToken = "a-token-that-is-long-enough-for-every-agent"
)

// A vm is a machine to boot and what its console must say.
type vm struct {
	name    string
	uefi    bool
	boot    string // MAC of the card it "booted" from
	args    []string
	disks   []string // QEMU's device for each disk; %s is its drive
	console []string // must be on the console, in any order
}

var vms = []vm{
	{
		name: "BIOS with virtio-net NVMe virtio-blk AHCI virtio-scsi",
		boot: "52:54:00:00:01:01",
		args: []string{
			"-netdev", "user,id=n0,hostfwd=tcp:127.0.0.1:%d-:9999", "-device", "virtio-net-pci,netdev=n0,mac=52:54:00:00:01:01",
			"-device", "ahci,id=ahci", "-device", "virtio-scsi-pci,id=vs",
		},
		disks: []string{
			"nvme,drive=%s,serial=NVME0001", "virtio-blk-pci,drive=%s,serial=VIRT0001",
			"ide-hd,bus=ahci.0,drive=%s,serial=SATA0001,wwn=0x5000c50012345678", "scsi-hd,bus=vs.0,drive=%s,serial=SCSI0001,wwn=0x5000c500aabbccdd",
		},
		console: []string{
			`virtio_net`, `eth0: address 10.0.2.15/24 from 10.0.2.2`,
			`/dev/nvme0n1: 67108864 bytes, nvme, model "QEMU NVMe Ctrl", serial "NVME0001"`, `nvme-1`,
			`/dev/vda: 67108864 bytes, virtio, model "", serial "VIRT0001"`,
			`sata, model "QEMU HARDDISK", serial "SATA0001", wwn "0x5000c50012345678"`, `-ata-1`,
			`virtio, model "QEMU HARDDISK", serial "SCSI0001", wwn "0x5000c500aabbccdd"`, `-scsi-0:0:0:0`,
		},
	},
	{
		name: "UEFI with e1000e USB MegaRAID BMC",
		uefi: true, boot: "52:54:00:00:02:01",
		args: []string{
			"-machine", "q35", "-netdev", "user,id=n0,hostfwd=tcp:127.0.0.1:%d-:9999", "-device", "e1000e,netdev=n0,mac=52:54:00:00:02:01",
			"-device", "qemu-xhci", "-device", "megasas,id=mr", "-device", "ipmi-bmc-sim,id=bmc", "-device", "isa-ipmi-kcs,bmc=bmc",
		},
		disks: []string{"usb-storage,drive=%s,serial=USB0001,removable=on", "scsi-hd,bus=mr.0,drive=%s,serial=MEGA0001"},
		console: []string{
			`e1000e`, `ipmi_si`, `efivarfs`, `usb, model "QEMU HARDDISK", serial "USB0001"`, `-usb-0:1:1.0-scsi-0:0:0:0`,
			`scsi, model "QEMU HARDDISK", serial "MEGA0001"`,
		},
	},
	{
		name: "BIOS booted from the last of three cards with SAS and parallel SCSI",
		boot: "52:54:00:00:03:03",
		args: []string{
			"-netdev", "user,id=n0", "-device", "e1000,netdev=n0,mac=52:54:00:00:03:01",
			"-netdev", "user,id=n1", "-device", "rtl8139,netdev=n1,mac=52:54:00:00:03:02",
			"-netdev", "user,id=n2,hostfwd=tcp:127.0.0.1:%d-:9999", "-device", "vmxnet3,netdev=n2,mac=52:54:00:00:03:03",
			"-device", "mptsas1068,id=sas", "-device", "lsi53c895a,id=lsi",
		},
		disks: []string{"scsi-hd,bus=sas.0,drive=%s,serial=MPT0001,wwn=0x5000c50015ea71ac", "scsi-hd,bus=lsi.0,drive=%s,serial=LSI0001"},
		console: []string{
			`e1000`, `8139cp`, `vmxnet3`, `eth0: address`, `eth1: address`, `eth2: address`,
			`sas, model "QEMU HARDDISK", serial "MPT0001", wwn "0x5000c50015ea71ac"`, `-sas-phy0-lun-0`, `serial "LSI0001"`,
		},
	},
}

// TestBoot boots the ramdisk with the real agent on machines of several kinds,
// until the agent has looked itself up and sent a heartbeat, and powers it off
// by a command.
func TestBoot(t *testing.T) {
	dir, o := bootOptions(t)
	r, err := Build(t.Context(), o, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("built in %v: kernel %d, initrd %d bytes (%s)", r.Took, r.Kernel.Size, r.Initrd.Size, r.Compression)
	for _, p := range r.Parts {
		t.Logf("  %-8s %3d files %9d bytes, compressed %9d", p.Name, p.Files, p.Size, p.Compressed)
	}
	if r.Total() > 30<<20 {
		t.Errorf("kernel and initrd have %d bytes, more than 30 MiB", r.Total())
	}
	for _, m := range vms {
		t.Run(m.name, func(t *testing.T) { bootVM(t, m, dir) })
	}
}

// bootOptions builds the agent and finds the kernel, or skips the test.
func bootOptions(t *testing.T) (dir string, o Options) {
	t.Helper()
	root := os.Getenv(kernelDirEnv)
	if root == "" {
		t.Skip("set " + kernelDirEnv + " to a directory with an unpacked kernel package to boot the ramdisk in QEMU")
	}
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skipf("QEMU is needed: %v", err)
	}
	dir = t.TempDir()
	bin := filepath.Join(dir, AgentName)
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, "bessemer/agent/cmd/bessemer-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v\n%s", err, out)
	}
	agent, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	o = Host()
	o.Agent = agent
	if o.Kernel, o.ModulesDir, err = findKernel(root, ""); err != nil {
		t.Fatal(err)
	}
	return dir, o
}

// server is a small API server.
type server struct {
	*httptest.Server
	lookups, heartbeats chan *http.Request
	callback            string // of the first heartbeat
}

func newServer(t *testing.T) *server {
	s := &server{lookups: make(chan *http.Request, 100), heartbeats: make(chan *http.Request, 100)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/lookup", func(w http.ResponseWriter, r *http.Request) {
		s.lookups <- r
		w.Header().Set("X-OpenStack-Ironic-API-Maximum-Version", "1.82")
		_ = json.NewEncoder(w).Encode(wire.LookupResponse{Node: wire.LookupNode{UUID: testNode}, Config: wire.LookupConfig{AgentToken: testToken, HeartbeatTimeout: 60}})
	})
	mux.HandleFunc("POST /v1/heartbeat/{node}", func(w http.ResponseWriter, r *http.Request) {
		var h wire.Heartbeat
		if err := json.NewDecoder(r.Body).Decode(&h); err == nil && h.AgentToken == testToken && r.PathValue("node") == testNode && s.callback == "" {
			s.callback = h.CallbackURL
			s.heartbeats <- r
		}
		w.WriteHeader(http.StatusAccepted)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func bootVM(t *testing.T, m vm, dir string) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s := newServer(t)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	forward := freePort(t)
	console := filepath.Join(t.TempDir(), "console")
	cmdline := "console=ttyS0 ipa-api-url=http://10.0.2.2:" + port + " BOOTIF=01-" + strings.ReplaceAll(m.boot, ":", "-")
	qemu := exec.CommandContext(ctx, "qemu-system-x86_64", m.command(t, dir, console, cmdline, forward)...)
	var out bytes.Buffer
	qemu.Stdout, qemu.Stderr = &out, &out
	start := time.Now()
	if err := qemu.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- qemu.Wait() }()
	said := func() string { b, _ := os.ReadFile(console); return strings.ToValidUTF8(string(b), "?") }
	fail := func(what error) {
		cancel()
		<-ended
		text := said()
		t.Fatalf("%v\nQEMU: %s\nconsole:\n%s", what, out.String(), text[max(0, len(text)-6000):])
	}

	lookup, err := await(ctx, s.lookups, ended)
	if err != nil {
		fail(fmt.Errorf("no lookup: %w", err))
	}
	t.Logf("power on to lookup: %.1f s", time.Since(start).Seconds())
	if got := lookup.URL.Query().Get("addresses"); !strings.Contains(got, m.boot) {
		t.Errorf("looked up %q, without %s", got, m.boot)
	}
	if _, err := await(ctx, s.heartbeats, ended); err != nil {
		fail(fmt.Errorf("no heartbeat: %w", err))
	}
	if s.callback != "https://10.0.2.15:9999" {
		t.Errorf("the agent is to be called at %s", s.callback)
	}
	if err := command(ctx, forward, "standby.power_off"); err != nil {
		fail(err)
	}
	select {
	case <-ended:
	case <-ctx.Done():
		fail(errors.New("not powered off"))
	}
	text := said()
	for _, want := range append(m.console, "Bessemer deploy ramdisk", "modules loaded in", "MiB of memory free") {
		if !strings.Contains(text, want) {
			t.Errorf("the console does not say %q", want)
		}
	}
	for line := range strings.Lines(text) {
		if t.Failed() || strings.Contains(line, "ready,") || strings.Contains(line, "drivers:") || strings.Contains(line, "warning:") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// await returns the next request, or why there will be none.
func await(ctx context.Context, c <-chan *http.Request, ended chan error) (*http.Request, error) {
	select {
	case r := <-c:
		return r, nil
	case err := <-ended:
		ended <- err // for whoever waits for it
		return nil, fmt.Errorf("the machine ended: %v", err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// command lets the agent do something.
func command(ctx context.Context, port int, name string) error {
	body, err := json.Marshal(wire.CommandRequest{Name: name, Params: map[string]any{}})
	if err != nil {
		return err
	}
	u := fmt.Sprintf("https://127.0.0.1:%d/v1/commands/?wait=false&agent_token=%s", port, url.QueryEscape(testToken))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("command %s: %w", name, err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("command %s: %s: %s", name, resp.Status, answer)
	}
	return nil
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// command is QEMU's command line.
func (m vm) command(t *testing.T, dir, console, cmdline string, forward int) []string {
	t.Helper()
	args := []string{
		"-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "512", "-nodefaults", "-display", "none", "-no-reboot", "-monitor", "none",
		"-serial", "file:" + console, "-kernel", filepath.Join(dir, KernelName), "-initrd", filepath.Join(dir, InitrdName), "-append", cmdline,
	}
	for _, a := range m.args {
		if strings.Contains(a, "%d") {
			a = fmt.Sprintf(a, forward)
		}
		args = append(args, a)
	}
	for i, d := range m.disks {
		file, drive := filepath.Join(t.TempDir(), "disk"), fmt.Sprintf("d%d", i)
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, 64<<20); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-drive", "if=none,format=raw,id="+drive+",file="+file, "-device", fmt.Sprintf(d, drive))
	}
	if m.uefi {
		args = append(args, uefi(t)...)
	}
	return args
}

// uefi returns the arguments for OVMF, of Debian's package.
func uefi(t *testing.T) []string {
	t.Helper()
	const dir = "/usr/share/OVMF/"
	vars, err := os.ReadFile(dir + "OVMF_VARS_4M.fd")
	if err != nil {
		t.Skipf("UEFI firmware is needed: %v", err)
	}
	file := filepath.Join(t.TempDir(), "vars.fd")
	if err := os.WriteFile(file, vars, 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{
		"-drive", "if=pflash,format=raw,readonly=on,file=" + dir + "OVMF_CODE_4M.fd", "-drive", "if=pflash,format=raw,file=" + file,
	}
}
