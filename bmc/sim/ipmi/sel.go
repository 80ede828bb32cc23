package ipmi

import (
	"encoding/binary"
	"time"

	"bessemer/bmc/sim"
)

// The system event log (section 31). An entry is a record of 16 bytes, which
// has no room for the text that Redfish shows: it tells when, and how bad.

const (
	recordSize = 16
	logSize    = 512
)

// selRecord is an entry as a system event record (section 32.1).
func selRecord(e sim.LogEntry) []byte {
	const systemEvent, evm = 0x02, 0x04
	b := binary.LittleEndian.AppendUint16(nil, selID(e))
	b = append(b, systemEvent)
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Time.Unix()))
	b = append(b, addressBMC, 0, evm)
	// Generic severity (event type 07h): 00h to OK, 01h to non-critical, 02h
	// to critical, of the sensor type system event.
	offset, ok := map[string]byte{"OK": 0, "Warning": 1, "Critical": 2}[e.Severity]
	if !ok {
		offset = 1
	}
	return append(b, 0x12, 0, 0x07, offset, 0xff, 0xff)
}

// selID is the record id of an entry; 0 and FFFFh are reserved.
func selID(e sim.LogEntry) uint16 { return uint16((e.ID-1)%0xfffe + 1) }

// getSELInfo is Get SEL Info (section 31.2).
func (s *Server) getSELInfo(call) ([]byte, byte) {
	const reserve, none = 0x02, 0xffffffff
	es := s.c.Entries()
	b := binary.LittleEndian.AppendUint16([]byte{0x51}, uint16(len(es)))
	b = binary.LittleEndian.AppendUint16(b, uint16(max(0, logSize-len(es))*recordSize))
	added := uint32(none)
	if len(es) > 0 {
		added = uint32(es[len(es)-1].Time.Unix())
	}
	b = binary.LittleEndian.AppendUint32(b, added)
	return append(b, 0xff, 0xff, 0xff, 0xff, reserve), 0
}

func (s *Server) getSELAllocation(call) ([]byte, byte) {
	free := uint16(max(0, logSize-len(s.c.Entries())))
	b := binary.LittleEndian.AppendUint16(nil, logSize)
	b = binary.LittleEndian.AppendUint16(b, recordSize)
	b = binary.LittleEndian.AppendUint16(b, free)
	return append(binary.LittleEndian.AppendUint16(b, free), 1), 0
}

func (s *Server) reserveSEL(call) ([]byte, byte) {
	s.sel = max(s.sel+1, 1)
	return binary.LittleEndian.AppendUint16(nil, s.sel), 0
}

// getSEL is Get SEL Entry (section 31.5).
func (s *Server) getSEL(c call) ([]byte, byte) {
	const first, last = 0, 0xffff
	id := binary.LittleEndian.Uint16(c.data[2:])
	es := s.c.Entries()
	for i, e := range es {
		if id != selID(e) && !(id == first && i == 0) && !(id == last && i == len(es)-1) {
			continue
		}
		next := uint16(last)
		if i+1 < len(es) {
			next = selID(es[i+1])
		}
		return part(binary.LittleEndian.AppendUint16(nil, next), selRecord(e), int(c.data[4]), int(c.data[5]))
	}
	return nil, codeAbsent
}

// clearSEL is Clear SEL (section 31.9).
func (s *Server) clearSEL(c call) ([]byte, byte) {
	const status, erase, erased = 0x00, 0xaa, 0x01
	if binary.LittleEndian.Uint16(c.data) != s.sel {
		return nil, codeReservation
	}
	switch {
	case string(c.data[2:5]) != "CLR":
		return nil, codeField
	case c.data[5] == erase:
		s.c.ClearLog()
	case c.data[5] != status:
		return nil, codeField
	}
	return []byte{erased}, 0
}

// getSELTime is Get SEL Time (section 31.10).
func (s *Server) getSELTime(call) ([]byte, byte) {
	return binary.LittleEndian.AppendUint32(nil, uint32(s.o.Now().Add(s.skew).Unix())), 0
}

// setSELTime is Set SEL Time: the clock of the log alone; entries have the
// time of the machine's world.
func (s *Server) setSELTime(c call) ([]byte, byte) {
	s.skew = time.Unix(int64(binary.LittleEndian.Uint32(c.data)), 0).Sub(s.o.Now())
	return nil, 0
}

func (s *Server) getUTCOffset(call) ([]byte, byte) { return []byte{0, 0}, 0 }
