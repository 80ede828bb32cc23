package flaw

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Kind is what a fault does.
type Kind string

// Kinds of faults. Their events, which After, Count and Rate count, are in
// brackets.
const (
	BMCHang      Kind = "bmc-hang"      // takes requests and never answers [request]
	BMCDown      Kind = "bmc-down"      // refuses or ends connections, answers no packet [request]
	BMC500       Kind = "bmc-500"       // answers 500, IPMI completion code FFh [request]
	BMC503       Kind = "bmc-503"       // answers 503, IPMI node busy C0h [request]
	BMCSlow      Kind = "bmc-slow"      // answers after Delay, 2 s by default [request]
	BMCSessions  Kind = "bmc-sessions"  // has no session left [login]
	BMCPassword  Kind = "bmc-password"  // takes no password any more [request]
	PacketLoss   Kind = "packet-loss"   // loses packets of the firmware, DHCP and TFTP [packet]
	PacketDelay  Kind = "packet-delay"  // delays them by Delay, 1 s by default [packet]
	ImageStall   Kind = "image-stall"   // the download of the image stands still behind byte At [connection]
	ImageCut     Kind = "image-cut"     // the connection ends behind byte At [connection]
	ImageCorrupt Kind = "image-corrupt" // byte At arrives changed [connection]
	KernelCut    Kind = "kernel-cut"    // kernel or initramfs end early [download]
	AgentCrash   Kind = "agent-crash"   // the agent ends on the command it is given [command]
	DiskError    Kind = "disk-error"    // writing byte At fails with EIO [write of that byte]
	PowerLoss    Kind = "power-loss"    // the machine loses power, and comes back, as byte At is written [write of that byte]
	ClockJump    Kind = "clock-jump"    // the machine's clock is off by Delay [start]
	NoPOST       Kind = "no-post"       // a start hangs before it boots anything [start]
)

// Kinds lists all kinds.
func Kinds() []Kind {
	return []Kind{
		BMCHang, BMCDown, BMC500, BMC503, BMCSlow, BMCSessions, BMCPassword, PacketLoss, PacketDelay,
		ImageStall, ImageCut, ImageCorrupt, KernelCut, AgentCrash, DiskError, PowerLoss, ClockJump, NoPOST,
	}
}

// A Fault is an injected fault. Its text is "kind:key=value,key=value".
type Fault struct {
	Kind  Kind          `json:"kind"`
	After int           `json:"after,omitempty"` // so many events pass first
	Count int           `json:"count,omitempty"` // so many events are hit, then it is over; 0: until it is healed
	Rate  float64       `json:"rate,omitempty"`  // share of the events that are hit; 0: all
	Delay time.Duration `json:"delay,omitempty"` // of slow and delay; the jump of a clock, which may be negative
	At    int64         `json:"at,omitempty"`    // byte
}

// ParseFault reads a fault: "bmc-500:count=3", "packet-loss:rate=0.3",
// "disk-error:at=4M", "clock-jump:delay=-3h".
func ParseFault(text string) (Fault, error) {
	kind, rest, _ := strings.Cut(text, ":")
	f := Fault{Kind: Kind(kind)}
	if !slices.Contains(Kinds(), f.Kind) {
		return f, fmt.Errorf("fault %q: no such kind; there are %s", text, joined(Kinds()))
	}
	for pair := range strings.SplitSeq(rest, ",") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		read, ok := faultKeys[key]
		if !ok {
			return f, fmt.Errorf("fault %q: no such key %q; there are %s", text, key, joined(slices.Sorted(maps.Keys(faultKeys))))
		}
		if err := read(&f, value); err != nil {
			return f, fmt.Errorf("fault %q: %s: %w", text, key, err)
		}
	}
	return f, nil
}

var faultKeys = map[string]func(*Fault, string) error{
	"after": func(f *Fault, v string) (err error) { f.After, err = natural(v); return err },
	"count": func(f *Fault, v string) (err error) { f.Count, err = natural(v); return err },
	"delay": func(f *Fault, v string) (err error) { f.Delay, err = time.ParseDuration(v); return err },
	"at":    func(f *Fault, v string) (err error) { f.At, err = bytesOf(v); return err },
	"rate": func(f *Fault, v string) (err error) {
		if f.Rate, err = strconv.ParseFloat(v, 64); err == nil && !(f.Rate > 0 && f.Rate <= 1) {
			err = fmt.Errorf("%s is not above 0 and at most 1", v)
		}
		return err
	},
}

func natural(v string) (int, error) {
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", v)
	}
	return int(n), nil
}

// bytesOf reads a number of bytes, with K, M or G for powers of 1024.
func bytesOf(v string) (int64, error) {
	digits, shift := v, 0
	for i, unit := range []string{"K", "M", "G"} {
		if d, ok := strings.CutSuffix(v, unit); ok {
			digits, shift = d, 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63-shift)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of bytes, such as 4096 or 4M", v)
	}
	return int64(n) << shift, nil
}

// String is the text that ParseFault reads.
func (f Fault) String() string {
	var pairs []string
	add := func(is bool, key string, value any) {
		if is {
			pairs = append(pairs, fmt.Sprintf("%s=%v", key, value))
		}
	}
	add(f.After != 0, "after", f.After)
	add(f.Count != 0, "count", f.Count)
	add(f.Rate != 0, "rate", f.Rate)
	add(f.Delay != 0, "delay", f.Delay)
	add(f.At != 0, "at", f.At)
	if len(pairs) == 0 {
		return string(f.Kind)
	}
	return string(f.Kind) + ":" + strings.Join(pairs, ",")
}

func joined[S ~string](words []S) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}
