package server

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"bessemer/configs"
	"bessemer/pxe"
	"bessemer/pxe/httpd"
	"bessemer/pxe/ramdisk"
)

// A ramdiskKeeper sees to it that there is a ramdisk, builds it when there is
// none, and takes up one that was built by hand. For simulated machines, which
// run none, it builds none: until there is one they get a stand-in.
type ramdiskKeeper struct {
	cfg     configs.Config
	log     zerolog.Logger
	now     atomic.Pointer[ramdisk.Ramdisk]
	last    atomic.Pointer[string] // why there is none
	standIn *standIn               // nil: not for simulated machines
}

func newRamdiskKeeper(cfg configs.Config, log zerolog.Logger) *ramdiskKeeper {
	k := &ramdiskKeeper{cfg: cfg, log: log}
	if cfg.Provisioning.Interface == configs.Simulated {
		k.standIn = newStandIn()
	}
	if !k.open() && k.standIn != nil {
		log.Info().Msg("machines get a stand-in for the ramdisk, which is for simulated machines only: it boots nothing")
	}
	return k
}

func (k *ramdiskKeeper) dir() string { return k.cfg.Path("ramdisk") }

func (k *ramdiskKeeper) open() bool {
	r, err := ramdisk.Open(k.dir())
	if err != nil {
		why := err.Error()
		k.last.Store(&why)
		return false
	}
	k.now.Store(r)
	k.last.Store(nil)
	return true
}

// run builds the ramdisk if it is wanted and lacks or does not fit, then looks
// from time to time whether another one was put in place.
func (k *ramdiskKeeper) run(ctx context.Context) error {
	if k.cfg.Ramdisk.Build == "auto" && k.standIn == nil {
		k.build(ctx)
	}
	return every(10*time.Second, func(context.Context) { k.open() })(ctx)
}

func (k *ramdiskKeeper) build(ctx context.Context) {
	o := ramdisk.Host()
	o.Kernel, o.ModulesDir = k.cfg.Ramdisk.Kernel, k.cfg.Ramdisk.Modules
	if dir := k.cfg.Ramdisk.Firmware; dir != "" {
		o.FirmwareDir = dir
	}
	o.Log = k.log
	r, _, err := ramdisk.Ensure(ctx, k.dir(), o)
	debug.FreeOSMemory() // a build takes ten times what the appliance does
	if err == nil {
		k.now.Store(r)
		k.last.Store(nil)
		return
	}
	if ctx.Err() != nil {
		return
	}
	if k.open() { // the one that is there still boots
		k.log.Warn().Err(err).Msg("keeping the ramdisk that is there")
		return
	}
	why := err.Error()
	k.last.Store(&why)
	k.log.Error().Err(err).Msg("there is no ramdisk, so no machine can be deployed")
}

// missing says why there is no ramdisk; nothing when there is one.
func (k *ramdiskKeeper) missing() []string {
	if k.now.Load() != nil || k.standIn != nil {
		return nil
	}
	if why := k.last.Load(); why != nil {
		return []string{"ramdisk: " + *why}
	}
	return []string{"ramdisk: being built"}
}

// files opens the files of the ramdisk for machines, as they are now.
func (k *ramdiskKeeper) files() func(name string) (*pxe.File, error) {
	built := httpd.Files(k.kernel, k.initrd)
	return func(name string) (*pxe.File, error) {
		if k.now.Load() == nil && k.standIn != nil {
			return k.standIn.open(name)
		}
		return built(name)
	}
}

// sums are the SHA-256 sums of what machines get now, "" when there is nothing.
func (k *ramdiskKeeper) sums() (kernel, initrd string) {
	switch r := k.now.Load(); {
	case r != nil:
		return r.Kernel.SHA256, r.Initrd.SHA256
	case k.standIn != nil:
		return k.standIn.sum(httpd.Kernel), k.standIn.sum(httpd.Initrd)
	}
	return "", ""
}

func (k *ramdiskKeeper) kernel() string { return k.file(ramdisk.KernelName) }
func (k *ramdiskKeeper) initrd() string { return k.file(ramdisk.InitrdName) }

func (k *ramdiskKeeper) file(name string) string {
	if k.now.Load() == nil {
		return k.dir() + "/none"
	}
	return k.dir() + "/" + name
}
