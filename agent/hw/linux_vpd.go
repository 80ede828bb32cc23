//go:build linux

package hw

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pages are a SCSI disk's vital product data (SPC-5, section 7.7): serial
// number (0x80), designators (0x83), and for SATA disks their own identity
// (0x89). Nil: not known.
type pages struct{ serial, ids, ata []byte }

// pagesOf reads the pages that the kernel has read.
func pagesOf(sysfs string) pages {
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(sysfs, name))
		if err != nil || len(b) == 0 {
			return nil
		}
		return b
	}
	return pages{serial: read("vpd_pg80"), ids: read("vpd_pg83"), ata: read("vpd_pg89")}
}

// ask asks the disk for the pages that are missing: the kernel itself does not
// ask disks that claim an old standard, such as virtio-scsi's or a RAID
// controller's.
func (p *pages) ask(device string) {
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	supported, err := inquire(f, 0)
	if err != nil || len(supported) < 4 {
		return
	}
	for _, code := range supported[4:] {
		switch code {
		case 0x80:
			p.serial, _ = inquire(f, code)
		case 0x83:
			p.ids, _ = inquire(f, code)
		}
	}
}

// An sgRequest is struct sg_io_hdr of the kernel's include/scsi/sg.h.
type sgRequest struct {
	interfaceID    int32
	direction      int32
	commandLen     uint8
	senseLen       uint8
	iovecs         uint16
	dataLen        uint32
	data           uintptr
	command        uintptr
	sense          uintptr
	timeout        uint32 // ms
	flags          uint32
	packID         int32
	user           uintptr
	status         uint8
	maskedStatus   uint8
	messageStatus  uint8
	senseWritten   uint8
	hostStatus     uint16
	driverStatus   uint16
	residual       int32
	duration, info uint32
}

const (
	sgIO         = 0x2285
	sgFromDevice = -3
)

// inquire sends INQUIRY for a page of vital product data (SPC-5, section 6.7).
func inquire(f *os.File, page byte) ([]byte, error) {
	data := make([]byte, 252) // some disks refuse a length above 255
	command := [6]byte{0x12, 1, page, 0, byte(len(data)), 0}
	var sense [32]byte
	r := sgRequest{
		interfaceID: 'S', direction: sgFromDevice, commandLen: uint8(len(command)), senseLen: uint8(len(sense)),
		dataLen: uint32(len(data)), timeout: 5000,
		data: uintptr(unsafe.Pointer(&data[0])), command: uintptr(unsafe.Pointer(&command[0])), sense: uintptr(unsafe.Pointer(&sense[0])),
	}
	var pin runtime.Pinner
	pin.Pin(&data[0])
	pin.Pin(&command)
	pin.Pin(&sense)
	defer pin.Unpin()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), sgIO, uintptr(unsafe.Pointer(&r))); errno != 0 {
		return nil, fmt.Errorf("inquire page %#x of %s: %w", page, f.Name(), errno)
	}
	if r.status != 0 || r.hostStatus != 0 || r.residual > int32(len(data)) {
		return nil, fmt.Errorf("inquire page %#x of %s: status %#x, host %#x", page, f.Name(), r.status, r.hostStatus)
	}
	return pageData(data[:len(data)-int(max(r.residual, 0))], page), nil
}

// pageData cuts a page to the length that it claims, nil if it is another page.
func pageData(b []byte, page byte) []byte {
	if len(b) < 4 || b[1] != page {
		return nil
	}
	return b[:min(len(b), 4+int(binary.BigEndian.Uint16(b[2:])))]
}

// unitSerial is the serial number of page 0x80.
func unitSerial(page []byte) string {
	page = pageData(page, 0x80)
	if page == nil {
		return ""
	}
	return printable(page[4:])
}

// worldWideName finds the NAA designator of the logical unit in page 0x83
// (SPC-5, section 7.7.6): 16 hex digits, and 16 more where it has a vendor's
// extension.
func worldWideName(page []byte) (name, extension string) {
	page = pageData(page, 0x83)
	for rest := page[min(4, len(page)):]; len(rest) >= 4; {
		end := 4 + int(rest[3])
		if end > len(rest) {
			return name, extension
		}
		id := rest[4:end]
		if association, kind := rest[1]>>4&3, rest[1]&15; association == 0 && kind == 3 && len(id) >= 8 {
			if text := hex.EncodeToString(id); name == "" || len(text) > 16 {
				name, extension = text[:16], text[16:]
			}
		}
		rest = rest[end:]
	}
	return name, extension
}

// ataIdentity reads model and serial number of a SATA disk's IDENTIFY DEVICE
// data, which page 0x89 has from byte 60 on (SAT-4, section 12.4.2). The
// model in the SCSI inquiry is cut off at 16 letters.
func ataIdentity(page []byte) (model, serial string, ok bool) {
	const at = 60
	page = pageData(page, 0x89)
	if len(page) < at+512 {
		return "", "", false
	}
	identity := page[at : at+512]
	model, serial = ataString(identity[27*2:47*2]), ataString(identity[10*2:20*2])
	return model, serial, model != "" && serial != ""
}

// ataString has two letters in each word, the second one first (ACS-4, 3.4.9).
func ataString(b []byte) string {
	s := make([]byte, len(b))
	for i := range b {
		s[i] = b[i^1]
	}
	return printable(s)
}

// printable is the text without what is no text: firmware fills up with blanks
// and zeros.
func printable(b []byte) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return -1
		}
		return r
	}, string(b)))
}
