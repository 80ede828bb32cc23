// Package httpd is the HTTP side of network boot, below /boot/ on the
// provisioning listener: iPXE scripts, the ramdisk, boot programs for UEFI
// HTTP boot, and, for the token of a run, its image and config drive.
//
// Promises: a script is always answered, never with 404, since iPXE would
// stop there; no value can become a command of a script; error answers have
// fixed texts; tokens are neither logged nor recorded.
package httpd

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"bessemer/pxe"
	"bessemer/store"
)

// Config of the handler.
type Config struct {
	Booter  pxe.Booter
	BaseURL string // of the provisioning listener, without a trailing slash
	// Ramdisk opens the deploy ramdisk's "kernel" or "initrd"; [Files] makes
	// one. A file that does not exist is fs.ErrNotExist.
	Ramdisk func(name string) (*pxe.File, error)
	NBPs    map[string][]byte // boot programs by name; not changed any more
	// KernelArgs are given to every ramdisk, beside our own.
	KernelArgs []string
	Owner      pxe.Owner // finds the machine by its address; nil: none is known
	Recorder   store.Recorder
	Log        zerolog.Logger
}

// Names for Config.Ramdisk.
const (
	Kernel = "kernel"
	Initrd = "initrd"
)

const (
	maxTransfers = 2048 // a rack of machines that were turned on at once
	maxStrangers = 128
	maxPerSource = 16
)

type handler struct {
	cfg     Config
	log     zerolog.Logger
	limit   pxe.Limit
	refusal rate.Sometimes    // bounds the lines about refused requests: anybody can make them by the thousand
	tags    map[string]string // ETags of the boot programs
	started time.Time         // modification time of what is in memory
}

// New returns the handler for everything below /boot/.
func New(cfg Config) (http.Handler, error) {
	if err := pxe.CheckBase(cfg.BaseURL); err != nil {
		return nil, err
	}
	if err := pxe.CheckArgs(cfg.KernelArgs); err != nil {
		return nil, fmt.Errorf("provisioning.kernel_args: %w", err)
	}
	if cfg.Owner == nil {
		cfg.Owner = func(netip.Addr) (net.HardwareAddr, bool) { return nil, false }
	}
	h := &handler{
		cfg: cfg, log: cfg.Log.With().Str("component", "httpd").Logger(), started: time.Now(),
		limit:   pxe.Limit{Total: maxTransfers, PerSource: maxPerSource, Strangers: maxStrangers},
		refusal: rate.Sometimes{First: 10, Interval: time.Second},
		tags:    map[string]string{},
	}
	for name, content := range cfg.NBPs {
		h.tags[name] = tag(content)
	}
	m := http.NewServeMux()
	m.HandleFunc("GET "+pxe.PathScript+"{mac}", h.script)
	m.HandleFunc("GET "+pxe.PathScript+"{$}", h.script)
	m.HandleFunc("GET "+pxe.PathKernel, h.ramdisk(Kernel, store.LabelFetchKernel))
	m.HandleFunc("GET "+pxe.PathInitrd, h.ramdisk(Initrd, store.LabelFetchRamdisk))
	m.HandleFunc("GET "+pxe.PathNBP+"{name}", h.nbp)
	m.HandleFunc("GET "+pxe.PathFile+"{token}/{name}", h.file)
	return h.guard(m), nil
}

// guard limits what runs at a time and keeps a panic from ending more than its
// request.
func (h *handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			e := recover()
			if e == nil {
				return
			}
			if e == http.ErrAbortHandler {
				panic(e)
			}
			h.log.Error().Any("panic", e).Bytes("stack", debug.Stack()).Msg("request dropped")
			panic(http.ErrAbortHandler)
		}()
		from := peer(r)
		_, known := h.cfg.Owner(from)
		release, ok := h.limit.Take(from, known)
		if !ok {
			w.Header().Set("Retry-After", "2")
			http.Error(w, "busy, try again", http.StatusServiceUnavailable)
			return
		}
		defer release()
		next.ServeHTTP(w, r)
	})
}

// peer is the address that a request came from.
func peer(r *http.Request) netip.Addr {
	p, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr().Unmap()
}

// machine is what is known of who asks.
func (h *handler) machine(r *http.Request, what string) pxe.Machine {
	from := peer(r)
	m := pxe.Machine{Arch: pxe.NoArch, What: what}
	if from.IsValid() {
		m.IP = net.IP(from.AsSlice())
	}
	if mac, ok := h.cfg.Owner(from); ok {
		m.MAC = mac
	}
	return m
}

// boot asks what a machine boots, and returns the context on whose behalf the
// rest of the request is.
func (h *handler) boot(ctx context.Context, m pxe.Machine) (context.Context, pxe.Boot) {
	if m.MAC == nil {
		return ctx, pxe.Boot{Action: pxe.Retry}
	}
	b := h.cfg.Booter.Boot(ctx, m)
	return store.WithScope(ctx, store.Scope{Trace: b.Trace, Node: b.Node, Run: b.Run}), b
}
