package ipmi

import "encoding/binary"

// inventory is the FRU inventory (Platform Management FRU Information Storage
// Definition 1.0): a common header, then chassis, board and product, whose
// offsets are in units of 8 bytes.
func (s *Server) inventory() []byte {
	spec := s.c.Machine.Spec()
	const rack, english = 0x17, 25
	chassis := area([]byte{1, 0, rack}, spec.Model, spec.Serial)
	board := area([]byte{1, 0, english, 0, 0, 0}, spec.Manufacturer, spec.Model, spec.Serial, spec.Model, "")
	product := area([]byte{1, 0, english}, spec.Manufacturer, spec.Model, spec.Model, "", spec.Serial, "", "")
	at := byte(1)
	header := []byte{1, 0, at, at + byte(len(chassis)/8), at + byte((len(chassis)+len(board))/8), 0, 0}
	b := append(header, sum(header))
	return append(append(append(b, chassis...), board...), product...)
}

// area is an area: its fixed bytes, the second of which is its length, its
// texts, and a checksum.
func area(b []byte, texts ...string) []byte {
	const end, latin, most = 0xc1, 0xc0, 63
	for _, t := range texts {
		if len(t) == 1 {
			t += " " // of length 1 would be the end
		}
		t = t[:min(len(t), most)]
		if t == "" {
			b = append(b, 0)
			continue
		}
		b = append(append(b, latin|byte(len(t))), t...)
	}
	b = append(b, end)
	for len(b)%8 != 7 {
		b = append(b, 0)
	}
	b[1] = byte((len(b) + 1) / 8)
	return append(b, sum(b))
}

// getFRUInfo is Get FRU Inventory Area Info (section 34.1).
func (s *Server) getFRUInfo(c call) ([]byte, byte) {
	if c.data[0] != 0 {
		return nil, codeAbsent
	}
	return append(binary.LittleEndian.AppendUint16(nil, uint16(len(s.inventory()))), 0), 0
}

// readFRU is Read FRU Data (section 34.2).
func (s *Server) readFRU(c call) ([]byte, byte) {
	if c.data[0] != 0 {
		return nil, codeAbsent
	}
	got, code := part([]byte{0}, s.inventory(), int(binary.LittleEndian.Uint16(c.data[1:])), int(c.data[3]))
	if code == 0 {
		got[0] = byte(len(got) - 1)
	}
	return got, code
}
