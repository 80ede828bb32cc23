package firmware

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

const (
	maxSettings = 256
	maxExpanded = 4 << 10
)

// expand replaces ${name} and ${name:type}, the innermost first, as often as
// there is one.
func (s *shell) expand(word string) string {
	for range 64 {
		end := -1
		start := -1
		for i := 0; i < len(word) && end < 0; i++ {
			switch {
			case strings.HasPrefix(word[i:], "${"):
				start = i
			case word[i] == '}' && start >= 0:
				end = i
			}
		}
		if end < 0 {
			break
		}
		word = word[:start] + s.setting(word[start+2:end]) + word[end+1:]
		if len(word) > maxExpanded {
			return word[:maxExpanded]
		}
	}
	return word
}

// setting is the value of a setting as text, "" for one that is not set.
func (s *shell) setting(name string) string {
	name, kind, _ := strings.Cut(name, ":")
	value, ok := s.set[name]
	if !ok {
		value = s.builtin(name)
	}
	if kind == "hexhyp" {
		return strings.ReplaceAll(value, ":", "-")
	}
	return value
}

// builtin are the settings that a machine has by itself: those of a card
// (net0/mac, netX/ip, or without a card) and its own.
func (s *shell) builtin(name string) string {
	switch name {
	case "platform":
		return s.platform
	case "buildarch":
		return s.arch
	case "version":
		return "1.21.1+"
	case "uuid":
		return s.on.identityOf("uuid")
	}
	card, field, scoped := strings.Cut(name, "/")
	if !scoped {
		return s.cardSetting(s.booted, name)
	}
	if card == "netX" {
		return s.cardSetting(s.booted, field)
	}
	i, err := strconv.Atoi(strings.TrimPrefix(card, "net"))
	if err != nil || i < 0 || i >= s.cards || card != "net"+strconv.Itoa(i) {
		return ""
	}
	return s.cardSetting(i, field)
}

func (s *shell) cardSetting(card int, field string) string {
	if field == "mac" {
		return s.mac(card)
	}
	a, ok := s.on.address()
	if card != s.booted || !ok {
		return ""
	}
	switch field {
	case "ip":
		return a.lease.IP.String()
	case "netmask":
		if a.lease.Prefix.IsValid() {
			return net.IP(net.CIDRMask(a.lease.Prefix.Bits(), 32)).String()
		}
	case "filename":
		return a.file
	case "next-server":
		return addressText(a.next)
	case "dhcp-server":
		return addressText(a.lease.Server)
	}
	return ""
}

// mac is a card's address: the other card's is one beside that of the card
// which boots.
func (s *shell) mac(card int) string {
	own := s.on.identityOf("mac")
	hw, err := net.ParseMAC(own)
	if card == s.booted || err != nil {
		return own
	}
	hw[len(hw)-1] ^= 0x80
	return hw.String()
}

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// store sets a setting; "" clears it.
func (s *shell) store(name, value string) error {
	name, _, _ = strings.Cut(name, ":")
	if value == "" {
		delete(s.set, name)
		return nil
	}
	if _, known := s.set[name]; !known && len(s.set) >= maxSettings {
		return errNoMemory
	}
	s.set[name] = value[:min(len(value), maxExpanded)]
	return nil
}
