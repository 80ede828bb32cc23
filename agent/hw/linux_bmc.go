//go:build linux

package hw

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bmcAddresses asks the machine's own BMC for its addresses, through the
// kernel's IPMI driver; "" where there is none. The answer is kept: asking
// takes a BMC up to a second.
func (m *Linux) bmcAddresses() (v4, v6 string) {
	m.bmc.mu.Lock()
	defer m.bmc.mu.Unlock()
	if m.bmc.known {
		return m.bmc.v4, m.bmc.v6
	}
	f, err := os.OpenFile(m.path("dev/ipmi0"), os.O_RDWR, 0)
	if err != nil { // no BMC, or its driver is not there yet
		return "", ""
	}
	defer f.Close()
	m.bmc.v4, m.bmc.v6 = lanAddresses(ipmiDevice{f}.command)
	m.bmc.known = true
	return m.bmc.v4, m.bmc.v6
}

// IPMI commands (IPMI 2.0, sections 22.24 and 23.2).
const (
	netApp, getChannelInfo    = 0x06, 0x42
	netTransport, getLAN      = 0x0c, 0x02
	mediumLAN                 = 4
	paramIP                   = 3
	paramIPv6Static           = 56
	paramIPv6Dynamic          = 59
	firstChannel, lastChannel = 1, 11
)

// lanAddresses looks through the BMC's channels: the LAN is not always on the
// first (quirk I-11). send sends a command and returns the answer after the
// completion code.
func lanAddresses(send func(netFn, command byte, data ...byte) ([]byte, error)) (v4, v6 string) {
	for ch := byte(firstChannel); ch <= lastChannel && v4 == "" && v6 == ""; ch++ {
		info, err := send(netApp, getChannelInfo, ch)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return "", ""
		}
		if err != nil || len(info) < 2 || info[1]&0x7f != mediumLAN {
			continue
		}
		// Revision of the parameters, then the address.
		if b, err := send(netTransport, getLAN, ch, paramIP, 0, 0); err == nil && len(b) >= 5 {
			v4 = usable(net.IP(b[1:5]))
		}
		for _, param := range []byte{paramIPv6Static, paramIPv6Dynamic} {
			// Revision, which of the addresses, its source, the address.
			if b, err := send(netTransport, getLAN, ch, param, 0, 0); err == nil && len(b) >= 19 && v6 == "" {
				v6 = usable(net.IP(b[3:19]))
			}
		}
	}
	return v4, v6
}

func usable(ip net.IP) string {
	if ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.Equal(net.IPv4bcast) {
		return ""
	}
	return ip.String()
}

// ipmiDevice is the kernel's IPMI driver (its include/uapi/linux/ipmi.h).
type ipmiDevice struct{ f *os.File }

type systemInterface struct {
	kind    int32
	channel int16
	lun     byte
}

type ipmiMessage struct {
	netFn, command byte
	dataLen        uint16
	data           uintptr
}

type ipmiRequest struct {
	addr    uintptr
	addrLen uint32
	id      int
	message ipmiMessage
}

type ipmiReceived struct {
	kind    int32
	addr    uintptr
	addrLen uint32
	id      int
	message ipmiMessage
}

// The driver's requests, and how long a BMC may take.
const (
	ipmiSend    = 2<<30 | unsafe.Sizeof(ipmiRequest{})<<16 | 'i'<<8 | 13
	ipmiReceive = 3<<30 | unsafe.Sizeof(ipmiReceived{})<<16 | 'i'<<8 | 11
	ipmiTimeout = 2 * time.Second
)

func (d ipmiDevice) command(netFn, command byte, data ...byte) ([]byte, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	addr := systemInterface{kind: 0x0c, channel: 0x0f} // the BMC itself
	payload := append(data, 0)                         // never empty, so that it has an address
	pin.Pin(&addr)
	pin.Pin(&payload[0])
	request := ipmiRequest{
		addr: uintptr(unsafe.Pointer(&addr)), addrLen: uint32(unsafe.Sizeof(addr)), id: 1,
		message: ipmiMessage{netFn: netFn, command: command, dataLen: uint16(len(data)), data: uintptr(unsafe.Pointer(&payload[0]))},
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, d.f.Fd(), ipmiSend, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return nil, fmt.Errorf("send IPMI command %#x: %w", command, errno)
	}
	poll := []unix.PollFd{{Fd: int32(d.f.Fd()), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, int(ipmiTimeout.Milliseconds())); err != nil || n == 0 {
		return nil, fmt.Errorf("await the BMC's answer to IPMI command %#x: %w", command, errors.Join(err, os.ErrDeadlineExceeded))
	}
	answer := make([]byte, 256)
	pin.Pin(&answer[0])
	received := ipmiReceived{
		addr: uintptr(unsafe.Pointer(&addr)), addrLen: uint32(unsafe.Sizeof(addr)),
		message: ipmiMessage{dataLen: uint16(len(answer)), data: uintptr(unsafe.Pointer(&answer[0]))},
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, d.f.Fd(), ipmiReceive, uintptr(unsafe.Pointer(&received))); errno != 0 {
		return nil, fmt.Errorf("receive the answer to IPMI command %#x: %w", command, errno)
	}
	answer = answer[:min(int(received.message.dataLen), len(answer))]
	if len(answer) == 0 || answer[0] != 0 {
		return nil, fmt.Errorf("IPMI command %#x: the BMC answered % x", command, answer)
	}
	return answer[1:], nil
}
