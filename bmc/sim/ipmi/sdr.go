package ipmi

import (
	"encoding/binary"
	"math"

	"bessemer/bmc/sim"
)

// A kind is how a sensor with a unit is told (section 43.1): raw values are
// steps of the unit.
type kind struct {
	unit, sensorType, entity byte
	m                        int // factor
	tenths                   bool
	limited                  bool
}

var kinds = map[string]kind{
	"Cel": {unit: 1, sensorType: 0x01, entity: 0x03, m: 1, limited: true},
	"RPM": {unit: 18, sensorType: 0x04, entity: 0x1d, m: 100},
	"W":   {unit: 6, sensorType: 0x0b, entity: 0x0a, m: 2},
	"V":   {unit: 4, sensorType: 0x02, entity: 0x14, m: 1, tenths: true, limited: true},
}

// raw is the byte that a value is told by.
func (k kind) raw(v float64) byte {
	if k.tenths {
		v *= 10
	}
	return byte(max(0, min(math.Round(v/float64(max(k.m, 1))), 255)))
}

// records are the sensor data records, whose ids are their places from 1: the
// sensors, the FRU inventory and the controller itself.
func (s *Server) records() [][]byte {
	var rs [][]byte
	for _, x := range s.c.Sensors() {
		if k, ok := kinds[x.Unit]; ok {
			rs = append(rs, fullRecord(x, k))
		}
	}
	name := s.c.Machine.Spec().Name
	fru := append([]byte{addressBMC, 0, 0x80, 0, 0, 0x10, 0, 0x07, 1, 0}, idString("FRU "+name)...)
	mc := append([]byte{addressBMC, 0, 0, 0x0f, 0, 0, 0, 0x06, 1, 0}, idString("BMC "+name)...)
	rs = append(rs, record(0x11, fru), record(0x12, mc))
	for i, r := range rs {
		binary.LittleEndian.PutUint16(r, uint16(i+1))
	}
	return rs
}

func record(recordType byte, body []byte) []byte {
	return append([]byte{0, 0, 0x51, recordType, byte(len(body))}, body...)
}

// idString is a name with the byte that tells its coding and length, which is
// at most 16.
func idString(name string) []byte {
	name = name[:min(len(name), 16)]
	return append([]byte{0xc0 | byte(len(name))}, name...)
}

// fullRecord is the record of a sensor (type 01h).
func fullRecord(x sim.Sensor, k kind) []byte {
	const upperCritical = 1 << 4
	var readable uint16
	high := byte(0)
	if k.limited && x.High > 0 {
		readable, high = upperCritical, k.raw(x.High)
	}
	exponent := byte(0)
	if k.tenths {
		exponent = 0xf0 // result × 10⁻¹
	}
	b := []byte{
		addressBMC, 0, byte(x.Number), // owner, number
		k.entity, byte(x.Number), 0x7f, 0x68, // initialised; ignored when absent, auto re-arm, thresholds readable
		k.sensorType, 0x01, // threshold sensor
		0, 0, 0, 0, // events
		byte(readable), 0, // thresholds
		0, k.unit, 0, // unsigned
		0, byte(k.m), byte(k.m >> 8 << 6), 0, 0, 0, exponent, // linear
		0, 0, 0, 0, 0xff, 0, // range
		0, high, 0, 0, 0, 0, // thresholds: upper non-recoverable, critical, …
		0, 0, 0, 0, 0, // hysteresis, reserved, OEM
	}
	return record(0x01, append(b, idString(x.Name)...))
}

// getSDRInfo is Get SDR Repository Info (section 33.9).
func (s *Server) getSDRInfo(call) ([]byte, byte) {
	const reserve = 0x02
	b := binary.LittleEndian.AppendUint16([]byte{0x51}, uint16(len(s.records())))
	return append(b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, reserve), 0
}

func (s *Server) getSDRAllocation(call) ([]byte, byte) { return []byte{0, 0, 0, 0, 0, 0, 0, 0, 0}, 0 }

func (s *Server) reserveSDR(call) ([]byte, byte) {
	s.sdr = max(s.sdr+1, 1)
	return binary.LittleEndian.AppendUint16(nil, s.sdr), 0
}

// getSDR is Get SDR (section 33.12): part of a record, and the id of the next.
func (s *Server) getSDR(c call) ([]byte, byte) {
	const first, last = 0, 0xffff
	reservation, id := binary.LittleEndian.Uint16(c.data), binary.LittleEndian.Uint16(c.data[2:])
	from, n := int(c.data[4]), int(c.data[5])
	rs := s.records()
	switch {
	case from > 0 && reservation != s.sdr:
		return nil, codeReservation
	case id == first:
		id = 1
	case id == last:
		id = uint16(len(rs))
	}
	if int(id) > len(rs) {
		return nil, codeAbsent
	}
	next := id + 1
	if int(id) == len(rs) {
		next = last
	}
	return part(binary.LittleEndian.AppendUint16(nil, next), rs[id-1], from, n)
}

// part appends n bytes of b from an offset. All that is left is asked for with
// 255; what fits no packet is refused.
func part(answer, b []byte, from, n int) ([]byte, byte) {
	const most = 128
	switch {
	case from > len(b):
		return nil, codeRange
	case n == 0xff:
		n = len(b) - from
	}
	if n = min(n, len(b)-from); n > most {
		return nil, codeTooMuch
	}
	return append(answer, b[from:from+n]...), 0
}

func (s *Server) sensor(number byte) (sim.Sensor, kind, bool) {
	for _, x := range s.c.Sensors() {
		if k, ok := kinds[x.Unit]; ok && byte(x.Number) == number {
			return x, k, true
		}
	}
	return sim.Sensor{}, kind{}, false
}

// getReading is Get Sensor Reading (section 35.14).
func (s *Server) getReading(c call) ([]byte, byte) {
	x, k, ok := s.sensor(c.data[0])
	if !ok {
		return nil, codeAbsent
	}
	const scanning, overCritical = 0x40, 1 << 4
	state := byte(0xc0) // the reserved bits
	if k.limited && x.High > 0 && x.Value >= x.High {
		state |= overCritical
	}
	return []byte{k.raw(x.Value), scanning | 0x80, state, 0}, 0
}

// getThresholds is Get Sensor Thresholds (section 35.9).
func (s *Server) getThresholds(c call) ([]byte, byte) {
	x, k, ok := s.sensor(c.data[0])
	if !ok {
		return nil, codeAbsent
	}
	b := make([]byte, 7)
	if k.limited && x.High > 0 {
		b[0], b[5] = 1<<4, k.raw(x.High)
	}
	return b, 0
}

// getPower is DCMI's Get Power Reading.
func (s *Server) getPower(c call) ([]byte, byte) {
	const dcmi, measuring, period = 0xdc, 0x40, 1000
	if c.data[0] != dcmi {
		return nil, codeUnknown
	}
	for _, x := range s.c.Sensors() {
		if x.Unit != "W" {
			continue
		}
		b := []byte{dcmi}
		for range 4 { // now, least, most, on average
			b = binary.LittleEndian.AppendUint16(b, uint16(x.Value))
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(s.o.Now().Unix()))
		return append(binary.LittleEndian.AppendUint32(b, period), measuring), 0
	}
	return nil, codeAbsent
}
