package firmware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A stage is a host that notes what a script does. Files that it does not have
// cannot be fetched.
type stage struct {
	files map[string]string // by URL
	log   []string
	slept time.Duration
	ip    bool
}

func (h *stage) say(format string, args ...any) { h.log = append(h.log, fmt.Sprintf(format, args...)) }

func (h *stage) wait(ctx context.Context, d time.Duration) error {
	h.slept += d
	return ctx.Err()
}

func (h *stage) address() (answer, bool) {
	a := answer{file: "http://h/boot", next: netip.MustParseAddr("127.0.0.1")}
	a.lease = Lease{IP: netip.MustParseAddr("127.64.0.7"), Prefix: netip.MustParsePrefix("127.64.0.0/16"), Server: a.next}
	return a, h.ip
}

func (h *stage) identityOf(name string) string {
	return map[string]string{"mac": testMAC, "uuid": testUUID}[name]
}

func (h *stage) link(context.Context, bool) error { return nil }

func (h *stage) dhcp(_ context.Context, user string) error {
	h.log, h.ip = append(h.log, "dhcp as "+user), true
	return nil
}

func (h *stage) load(_ context.Context, u *url.URL, name string, sink io.Writer) (File, error) {
	text, ok := h.files[u.String()]
	if !ok {
		return File{}, fmt.Errorf("fetch %s: not there", u)
	}
	_, _ = io.WriteString(sink, text)
	return File{Name: name, URL: u.String(), Size: int64(len(text))}, nil
}

func (h *stage) restart(context.Context, program) error { return errFormat }

func (h *stage) bootKernel(kernel, initrd File, args []string) error {
	h.log = append(h.log, fmt.Sprintf("boot %s with %s: %s", kernel.URL, initrd.URL, strings.Join(args, " ")))
	return &leaving{action: Ramdisk}
}

func (h *stage) sanboot(string) error { return errors.New("no") }

// TestScriptLanguage runs scripts line by line as iPXE reads them.
func TestScriptLanguage(t *testing.T) {
	files := map[string]string{
		"http://h/k": "kernel", "http://h/i": "initrd", "http://h/one": "#!ipxe\necho one\nexit 1\n", "http://h/ok": "#!ipxe\necho ok\n",
		"http://h/d/rel": "#!ipxe\nchain next\n", "http://h/d/next": "#!ipxe\necho next\n", "http://h/bin": "\x7fELF",
	}
	for _, tt := range []struct{ name, text, says, err string }{
		{"and, or", "iseq a a && echo yes || echo no\niseq a b && echo yes || echo no", "yes,no", ""},
		{"passed over keeps the status", "iseq a b && echo x || iseq c c && echo y", "y", ""},
		{"or at the end", "iseq a b ||\necho on", "on", ""},
		{"a failure ends the script", "echo a\niseq a b\necho b", "a", "no"},
		{"semicolon", "iseq a b ; echo on", "on", ""},
		{"comment", "echo a # b\n# c\necho d", "a,d", ""},
		{"no quotes", `echo "a  b"`, `"a b"`, ""},
		{"line goes on", "echo a \\\nb", "a b", ""},
		{"label with a command", "goto x\necho no\n:x echo yes", "yes", ""},
		{"goto skips the rest of its line", "goto x || echo no\n:x", "", ""},
		{"goto nowhere", "goto x || echo none", `goto: no label "x",none`, ""},
		{"set, clear", "set a b c\necho ${a}\nclear a\necho [${a}]", "b c,[]", ""},
		{"an expansion is one word", "set a x && echo no\nset b && \necho [${b}]\nset c echo hi\n${c} ||", "no,[],echo hi: command not found", ""},
		{"nested expansion", "set i 0\necho ${net${i}/mac} ${net1/mac} ${netX/mac:hexhyp}", testMAC + "  52-54-00-00-00-01", ""},
		{"inc", "inc n\ninc n 5\necho ${n}\nset m:int32 0\ninc m\necho ${m:int32}", "6,1", ""},
		{"loop", "set n 0\n:l\ninc n\niseq ${n} 3 || goto l\necho ${n}", "3", ""},
		{"unknown command", "frobnicate || echo none", "frobnicate: command not found,none", ""},
		{"isset", "isset ${ip} || dhcp\nisset ${ip} && echo ${ip} ${netmask} ${filename} ${next-server}", "Configuring (net0 " + testMAC + ")...,dhcp as iPXE,127.64.0.7 255.255.0.0 http://h/boot 127.0.0.1", ""},
		{"user class", "set user-class X\nifconf -c dhcp net0", "Configuring (net0 " + testMAC + ")...,dhcp as X", ""},
		{"no such card", "dhcp net7 || echo none", "dhcp: net7: no such interface,none", ""},
		{"kernel, initrd, boot", "kernel http://h/k a=b initrd=i\ninitrd http://h/i\nboot", "http://h/k...,http://h/i...,boot http://h/k with http://h/i: a=b initrd=i", "iPXE ends"},
		{"initrd= names nothing", "kernel http://h/k initrd=x\ninitrd http://h/i\nboot || echo no", "http://h/k...,http://h/i...,boot: initrd=x names no image: no such image,no", ""},
		{"imgfree", "kernel http://h/k\nimgfree\nboot || echo no", "http://h/k...,boot: no such image,no", ""},
		{"imgfetch, then by name", "imgfetch --name s http://h/ok\nchain --autofree s", "http://h/ok...,s...,ok", ""},
		{"chain gives the status", "chain http://h/one || echo back", "http://h/one...,one,back", ""},
		{"chain --replace does not come back", "chain --replace http://h/ok || echo back\necho no", "http://h/ok...,ok", ""},
		{"relative names", "chain http://h/d/rel", "http://h/d/rel...,next...,next", ""},
		{"chain to nothing", "chain http://h/none || echo no", "http://h/none...,fetch http://h/none: not there,no", ""},
		{"chain to a binary", "chain http://h/bin || echo no", "http://h/bin...,no", ""},
		{"unknown option", "chain --frob http://h/ok || echo no", `unrecognised option "--frob",no`, ""},
		{"exit", "exit 3\necho no", "", "exit status 3"},
		{"sleep", "sleep 5", "", ""},
		{"sleep for ever", "sleep 99999999 || echo no", "sleep: invalid argument,no", ""},
		{"platform", "echo ${platform} ${buildarch} ${uuid}", "efi x86_64 " + testUUID, ""},
		{"prompt", "prompt --key 0x02 --timeout 2000 Go? && echo no || echo on", "Go?,on", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &stage{files: files}
			err := newShell(h, traits{platform: "efi", arch: "x86_64", cards: 1}).run(t.Context(), "#!ipxe\n"+tt.text+"\n")
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.says, strings.Join(h.log, ",")); diff != "" || got != tt.err {
				t.Errorf("status %q, want %q; says (-want +got):\n%s", got, tt.err, diff)
			}
		})
	}
}

// FuzzScript runs every text as a script: it ends, with bounded memory, and
// without a panic.
func FuzzScript(f *testing.F) {
	f.Add("echo a && goto b || exit 1\n:b\nset c ${d${e}}\n")
	f.Add("kernel http://h/k a=b\ninitrd http://h/k\nboot || chain --replace http://h/s ||\n")
	f.Add(packedScript)
	f.Add(":a\nset x ${x}${x}y\ngoto a")
	f.Add("imgfetch --name\nifconf -c\nprompt --timeout=9 \\\n x\nsanboot --drive 0x81")
	f.Fuzz(func(t *testing.T, text string) {
		h := &stage{files: map[string]string{"http://h/k": "kernel", "http://h/s": "#!ipxe\nchain http://h/s\n"}}
		s := newShell(h, traits{platform: "pcbios", arch: "i386", cards: 2, booted: 1})
		_ = s.run(t.Context(), "#!ipxe\n"+text)
		if s.steps > maxSteps+1 || len(s.set) > maxSettings || len(s.images) > maxImages || s.depth != 0 {
			t.Errorf("%d steps, %d settings, %d images, depth %d", s.steps, len(s.set), len(s.images), s.depth)
		}
		for name, v := range s.set {
			if len(v) > maxExpanded {
				t.Errorf("%q has %d bytes", name, len(v))
			}
		}
	})
}
