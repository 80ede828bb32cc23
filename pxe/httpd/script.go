package httpd

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"bessemer/pxe"
	"bessemer/store"
)

// tryWaits are the pauses in which an unknown machine asks again before it
// boots its disk, in seconds.
var tryWaits = []int{5, 10, 20, 30}

// script answers with the boot script of the machine with the MAC in the path.
// Even a request that makes no sense gets a script.
func (h *handler) script(w http.ResponseWriter, r *http.Request) {
	m := h.machine(r, "boot script")
	owner := m.MAC
	if mac, err := parseMAC(r.PathValue("mac")); err == nil {
		m.MAC = mac
	}
	try, _ := strconv.Atoi(r.URL.Query().Get("try"))
	ctx, boot := h.boot(r.Context(), m)
	if !h.mayBoot(r, owner, m.MAC, boot) {
		h.refusal.Do(func() {
			h.log.Warn().Stringer("from", peer(r)).Stringer("mac", m.MAC).Stringer("lease", owner).
				Msg("refused: the boot script of another machine was asked for")
		})
		ctx, boot, m.MAC = r.Context(), pxe.Boot{Action: pxe.Retry}, nil
	}
	in := scriptInput{Boot: boot, MAC: m.MAC, Base: h.cfg.BaseURL, Args: h.cfg.KernelArgs, Try: try}
	if boot.Action == pxe.Ramdisk {
		in.Arch = h.ramdiskArch()
	}
	text, err := render(in)
	if other, ok := refused(r, in.Arch); ok {
		text, err = refusedScript(other), other
	}
	if err != nil {
		h.log.Error().Err(err).Str("node", boot.Node).Msg("the ramdisk's boot script was not given")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	done := h.record(ctx, arrow{
		node: boot.Node, label: store.LabelFetchScript, reply: scriptLabels[boot.Action],
		to: store.Boot, path: pxe.PathScript + m.MAC.String(),
	}, r)
	n := 0
	if r.Method != http.MethodHead {
		var lost error
		n, lost = w.Write([]byte(text))
		err = errors.Join(err, lost)
	}
	done(http.StatusOK, int64(n), err)
}

// mayBoot reports whether the machine that has the requester's lease (owner,
// nil for unknown) may see the script of mac: a run's script carries what its
// agent proves itself with. Two cards of one node may.
func (h *handler) mayBoot(r *http.Request, owner, mac net.HardwareAddr, b pxe.Boot) bool {
	if owner == nil || bytes.Equal(owner, mac) || b.Node == "" {
		return true
	}
	_, other := h.boot(r.Context(), pxe.Machine{MAC: owner, Arch: pxe.NoArch, What: "boot script"})
	return other.Node == b.Node
}

// scriptLabels say on the arrow back what the script makes the machine do.
var scriptLabels = map[pxe.Action]string{
	pxe.Local: store.LabelBootLocalDisk,
	pxe.Retry: store.LabelRetryBoot,
}

// parseMAC reads the MAC in a script's path; iPXE's own variables give it with
// hyphens, and .ipxe may follow.
func parseMAC(s string) (net.HardwareAddr, error) {
	mac, err := net.ParseMAC(strings.TrimSuffix(s, ".ipxe"))
	if err != nil {
		return nil, err
	}
	if len(mac) != 6 {
		return nil, fmt.Errorf("%d bytes, want 6", len(mac))
	}
	return mac, nil
}

// scriptInput is all that a script depends on.
type scriptInput struct {
	Boot pxe.Boot
	MAC  net.HardwareAddr
	Base string
	Args []string
	Arch string // of the ramdisk, "" if unknown
	Try  int    // how often an unknown machine has asked in this boot
}

// render writes a machine's script. When a value cannot stand in it, the
// script says so and boots the disk, and the error tells which. Only commands
// are used that iPXE has had from the beginning: network cards carry old ones
// (quirk D-12, no "inc").
func render(in scriptInput) (string, error) {
	switch in.Boot.Action {
	case pxe.Ramdisk:
		text, err := ramdiskScript(in)
		if err != nil {
			return header + "echo Bessemer: the kernel arguments of this node are not usable, see the log of the server\n" + bootDisk, err
		}
		return text, nil
	case pxe.Local:
		return header + "echo Bessemer: booting from disk\n" + bootDisk, nil
	default:
		return retryScript(in), nil
	}
}

const header = "#!ipxe\n"

// bootDisk leaves network boot. BIOS: start the first disk; where that fails,
// give back to the firmware for its next device (quirk D-24). It is an exit with
// an error, for two reasons: after a success UEFI firmware shows its menu
// instead of trying the next boot option (UEFI specification 3.1.1), and the
// script inside of the BIOS program goes on, up to a prompt, instead of ending.
const bootDisk = `iseq ${platform} efi || sanboot --no-describe --drive 0x80 ||
exit 1
`

// retryScript makes an unknown machine ask again a few times and then boot
// its disk.
func retryScript(in scriptInput) string {
	if in.Try < 0 || in.Try >= len(tryWaits) || in.MAC == nil {
		return header + "echo Bessemer: nothing to do for this machine, booting from disk\n" + bootDisk
	}
	wait := tryWaits[in.Try]
	return fmt.Sprintf(header+`echo Bessemer: nothing to do for %s yet, asking again in %d seconds
sleep %d
chain --replace %s?try=%d ||
`, in.MAC, wait, wait, pxe.ScriptURL(in.Base, in.MAC), in.Try+1) + bootDisk
}

// ramdiskWaits are the pauses between tries to load the ramdisk, together 97
// seconds: switches may forward nothing for 50 after a link came up (quirk
// D-07). Then the machine reboots instead of asking for ever (D-11).
var ramdiskWaits = []int{2, 5, 10, 20, 30, 30}

// ramdiskScript loads kernel and initrd and starts them.
func ramdiskScript(in scriptInput) (string, error) {
	args, err := kernelArgs(in)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(header)
	b.WriteString(onlyFor(in.Arch))
	fmt.Fprintf(&b, `echo Bessemer: loading the deploy ramdisk
set try 0
:load
imgfree
kernel %s%s %s || goto failed
initrd %s%s || goto failed
boot || goto failed
:failed
`, in.Base, pxe.PathKernel, strings.Join(args, " "), in.Base, pxe.PathInitrd)
	for i := range ramdiskWaits {
		fmt.Fprintf(&b, "iseq ${try} %d && goto wait%d ||\n", i, i)
	}
	b.WriteString("echo Bessemer: could not load the deploy ramdisk, rebooting\nsleep 5\nreboot\n")
	for i, wait := range ramdiskWaits {
		fmt.Fprintf(&b, ":wait%d\nset try %d\necho Bessemer: no answer, trying again in %d seconds\nsleep %d\ngoto load\n", i, i+1, wait, wait)
	}
	if in.Arch != "" {
		fmt.Fprintf(&b, ":other\nchain --replace %s?buildarch=${buildarch} ||\n%s", pxe.ScriptURL(in.Base, in.MAC), bootDisk)
	}
	return b.String(), nil
}

// onlyFor leaves a script on machines whose iPXE says that it is of another
// architecture than the ramdisk. One that is too old to say goes on.
func onlyFor(arch string) string {
	var b strings.Builder
	for _, word := range slices.Sorted(maps.Keys(buildArchs)) {
		if arch != "" && buildArchs[word] != arch {
			fmt.Fprintf(&b, "iseq ${buildarch} %s && goto other ||\n", word)
		}
	}
	return b.String()
}

// refusedScript is for a machine that cannot run the ramdisk. It stays readable
// for a while before the disk boots.
func refusedScript(o otherArch) string {
	return fmt.Sprintf(header+`echo Bessemer: this machine is %s, the deploy ramdisk is for %s: it cannot be deployed from here
sleep 30
`, o.machine, o.ramdisk) + bootDisk
}

// kernelArgs are the ramdisk's arguments: what it needs to find us, the NIC it
// booted from (quirk D-09; not ip=, which breaks with it, D-10), the
// configured ones, and the run's.
func kernelArgs(in scriptInput) ([]string, error) {
	args := []string{"initrd=initrd", "ipa-api-url=" + in.Base}
	if in.MAC != nil {
		args = append(args, "BOOTIF=01-"+strings.ReplaceAll(in.MAC.String(), ":", "-"))
	}
	args = append(args, in.Args...)
	args = append(args, in.Boot.Args...)
	return args, pxe.CheckArgs(args)
}
