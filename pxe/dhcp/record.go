package dhcp

import (
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"bessemer/store"
)

// arrows are the labels of a packet of the given type and of its answer.
var arrows = map[dhcpv4.MessageType]string{
	dhcpv4.MessageTypeDiscover: store.LabelDHCPDiscover,
	dhcpv4.MessageTypeOffer:    store.LabelDHCPOffer,
	dhcpv4.MessageTypeRequest:  store.LabelDHCPRequest,
	dhcpv4.MessageTypeNak:      store.LabelDHCPRefused,
	dhcpv4.MessageTypeRelease:  store.LabelDHCPRelease,
	dhcpv4.MessageTypeDecline:  store.LabelDHCPDecline,
}

// recordRequest draws the arrow of a packet of an enrolled machine.
func (s *Server) recordRequest(x *exchange, req *dhcpv4.DHCPv4) {
	label := arrows[req.MessageType()]
	node := x.boot.Node
	if node == "" {
		node = x.client.node
	}
	if label == "" || node == "" || s.cfg.Mode == Proxy && x.client.wants == wantsNothing {
		return
	}
	kind := store.Request
	if !s.answers(req.MessageType(), x.port) {
		kind = store.Cast
	}
	x.seq = s.rec.Record(x.ctx, store.Message{
		Node: node, From: store.NodeP, To: store.DHCP, Kind: kind, Label: label,
		Wire:   &store.Wire{Proto: "dhcp", Method: req.MessageType().String(), Peer: x.client.key, Out: int64(len(req.ToBytes()))},
		Detail: details("arch", x.client.arch.String(), "vendor_class", x.client.vendor, "user_class", x.client.user),
	})
}

// answers reports whether a message of the given type wants an answer of ours.
func (s *Server) answers(t dhcpv4.MessageType, port int) bool {
	switch t {
	case dhcpv4.MessageTypeRelease, dhcpv4.MessageTypeDecline:
		return false
	case dhcpv4.MessageTypeRequest:
		return s.cfg.Mode == Full || port == portProxy // at port 67 it is the other server's
	}
	return true
}

// recordReply draws the arrow back; err says that the reply was not sent.
func (s *Server) recordReply(x *exchange, resp *dhcpv4.DHCPv4, err error) {
	if x == nil || x.seq == 0 {
		return
	}
	label := arrows[resp.MessageType()]
	if resp.MessageType() == dhcpv4.MessageTypeAck {
		label = store.LabelNextServer
		if resp.BootFileName == "" {
			label = store.LabelDHCPAck
		}
	}
	m := store.Message{
		Node: x.boot.Node, From: store.DHCP, To: store.NodeP, Kind: store.Reply, Label: label, ReplyTo: x.seq,
		Dur: time.Since(x.begun), Outcome: store.OK,
		Wire: &store.Wire{Proto: "dhcp", Method: resp.MessageType().String(), Peer: x.client.key, Out: int64(len(resp.ToBytes()))},
	}
	if m.Node == "" {
		m.Node = x.client.node
	}
	if ip := addr(resp.YourIPAddr); ip.IsValid() {
		m.Detail = details("ip", ip.String(), "boot_file", resp.BootFileName)
	}
	if err != nil {
		m.Outcome, m.Error = store.Failed, err.Error()
	}
	s.rec.Record(x.ctx, m)
}

// details makes a message's detail of names and values, empty values left out.
func details(pairs ...string) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			m[pairs[i]] = pairs[i+1]
		}
	}
	return m
}
