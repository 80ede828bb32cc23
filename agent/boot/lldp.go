package boot

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"sync"

	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"
)

// lldpType is LLDP's EtherType; frames go to a multicast address that bridges
// do not pass on (IEEE 802.1AB, section 7.1).
const lldpType = 0x88cc

var lldpGroup = net.HardwareAddr{0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e}

// neighbours keeps what each link last heard of the switch at its other end.
type neighbours struct {
	mu    sync.Mutex
	heard map[string][][2]any
}

// LLDP returns what a link has heard, as Ironic-Python-Agent tells it: pairs
// of a type and its value in hex; nil for nothing.
func (n *Network) LLDP(name string) any {
	n.neighbours.mu.Lock()
	defer n.neighbours.mu.Unlock()
	if tlvs := n.neighbours.heard[name]; tlvs != nil {
		return tlvs
	}
	return nil
}

// listenLLDP listens on a link until ctx ends.
func (n *Network) listenLLDP(ctx context.Context, l *link) {
	card, err := net.InterfaceByIndex(l.index)
	if err != nil {
		return
	}
	conn, err := packet.Listen(card, packet.Raw, lldpType, nil)
	if err != nil {
		n.say("%s: listen for LLDP: %v", l.name, err)
		return
	}
	defer conn.Close() // twice is harmless
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := joinGroup(conn, l.index); err != nil {
		n.say("%s: listen for LLDP: %v", l.name, err)
	}
	frame := make([]byte, 9216)
	for {
		size, _, err := conn.ReadFrom(frame)
		if err != nil {
			return
		}
		if tlvs, err := parseLLDP(frame[:size]); err == nil {
			n.neighbours.mu.Lock()
			n.neighbours.heard[l.name] = tlvs
			n.neighbours.mu.Unlock()
		}
	}
}

// joinGroup lets the card take frames for the group.
func joinGroup(conn *packet.Conn, index int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	request := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_MULTICAST, Alen: uint16(len(lldpGroup))}
	copy(request.Address[:], lldpGroup)
	var joined error
	err = raw.Control(func(fd uintptr) {
		joined = unix.SetsockoptPacketMreq(int(fd), unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &request)
	})
	return errors.Join(err, joined)
}

// maxTLVs bounds what a frame may bring.
const maxTLVs = 128

// errLLDP is for frames that are not LLDP.
var errLLDP = errors.New("no LLDP frame")

// parseLLDP reads an Ethernet frame's TLVs: seven bits of type and nine of
// length, then the value; type 0 ends them (IEEE 802.1AB, section 8.4).
func parseLLDP(frame []byte) ([][2]any, error) {
	const header = 14
	if len(frame) < header || int(frame[12])<<8|int(frame[13]) != lldpType {
		return nil, errLLDP
	}
	var tlvs [][2]any
	for rest := frame[header:]; len(rest) >= 2 && len(tlvs) < maxTLVs; {
		kind, size := int(rest[0]>>1), int(rest[0]&1)<<8|int(rest[1])
		if size > len(rest)-2 {
			return nil, errLLDP
		}
		if kind == 0 {
			break
		}
		tlvs = append(tlvs, [2]any{kind, hex.EncodeToString(rest[2 : 2+size])})
		rest = rest[2+size:]
	}
	if len(tlvs) == 0 {
		return nil, errLLDP
	}
	return tlvs, nil
}
