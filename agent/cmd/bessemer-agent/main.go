// Command bessemer-agent is the first and only program of the deploy ramdisk:
// as process 1 it boots the machine and then serves the commands of the
// server. The kernel also runs it, under the name modprobe, to load modules.
//
// Run by hand it is the agent alone, on the machine that it is run on; that is
// for trying it out, and needs root.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/rs/zerolog"

	"bessemer/agent"
	"bessemer/agent/boot"
	"bessemer/agent/hw"
)

func main() {
	switch {
	case filepath.Base(os.Args[0]) == "modprobe":
		os.Exit(boot.Modprobe(os.Args[1:]))
	case os.Getpid() == 1:
		limitMemory()
		boot.Run(inRamdisk)
	default:
		os.Exit(byHand())
	}
}

// limitMemory makes the collector work harder before the agent takes half of a
// small machine.
func limitMemory() { debug.SetMemoryLimit(192 << 20) }

// inRamdisk runs the agent as the kernel's command line says.
func inRamdisk(ctx context.Context, s *boot.System) error {
	c := s.Cmdline
	if c.APIURL == "" {
		return fmt.Errorf("the kernel's command line has no ipa-api-url=http://SERVER: this ramdisk was not booted by a server")
	}
	level := zerolog.InfoLevel
	if c.Debug {
		level = zerolog.DebugLevel
	}
	log := &boot.Log{}
	config := agent.Config{
		APIURL:        c.APIURL,
		NodeUUID:      c.Args["ipa-node-uuid"],
		Token:         c.AgentToken,
		Listen:        listenOn(c.ListenHost, c.ListenPort),
		AdvertiseHost: c.AdvertiseHost,
		LookupTimeout: c.LookupTimeout,
		Insecure:      c.Insecure,
		Console:       s.Console,
		Version:       version(),
		Logger:        zerolog.New(log).Level(level).With().Timestamp().Logger(),
	}
	machine := hw.NewLinux(hw.LinuxOptions{
		BootMAC: s.Network.BootMAC(),
		Settle:  s.Settle,
		LLDP:    s.Network.LLDP,
		Logs:    map[string]func() []byte{"console": s.Console.Log, "agent": log.Bytes},
	})
	sayDisks(ctx, machine, s.Console)
	return agent.Run(ctx, config, machine)
}

// sayDisks shows on the console which disks there are.
func sayDisks(ctx context.Context, m hw.Machine, w *boot.Console) {
	disks, err := m.Disks(ctx)
	if err != nil {
		w.Printf("%v", err)
	}
	for _, d := range disks {
		w.Printf("disk %s: %d bytes, %s, model %q, serial %q, wwn %q, %s", d.Name, d.Size, d.Transport, d.Model, d.Serial, d.WWN, d.ByPath)
	}
}

func listenOn(host string, port int) string {
	if host == "" && port == 0 {
		return ""
	}
	if port == 0 {
		port = 9999
	}
	return net.JoinHostPort(host, fmt.Sprint(port))
}

// byHand runs the agent beside a running system.
func byHand() int {
	var c agent.Config
	flag.StringVar(&c.APIURL, "api-url", "", "the server's `URL`, http://SERVER:PORT")
	flag.StringVar(&c.NodeUUID, "node", "", "the node's `UUID`; empty: the server finds it by this machine's MACs")
	flag.StringVar(&c.Listen, "listen", ":9999", "`address` to serve commands on")
	flag.StringVar(&c.AdvertiseHost, "advertise-host", "", "`address` where the server reaches this agent; empty: the one that reached the server")
	flag.DurationVar(&c.LookupTimeout, "lookup-timeout", 0, "how long to look the node up; 0: for ever")
	flag.BoolVar(&c.Insecure, "insecure", false, "do not check the server's certificate")
	showVersion := flag.Bool("version", false, "print the version and end")
	flag.Parse()
	if *showVersion {
		fmt.Println(version())
		return 0
	}
	if c.APIURL == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "bessemer-agent: -api-url is needed, and nothing but flags")
		flag.Usage()
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c.Console, c.Version = os.Stderr, version()
	c.Logger = zerolog.New(os.Stderr).Level(zerolog.InfoLevel).With().Timestamp().Logger()
	if err := agent.Run(ctx, c, hw.NewLinux(hw.LinuxOptions{})); err != nil {
		fmt.Fprintln(os.Stderr, "bessemer-agent:", err)
		return 1
	}
	return 0
}

// version is what the build recorded: a tag, or a revision.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (info.Main.Version == "" || info.Main.Version == "(devel)") {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return info.Main.Version
}
