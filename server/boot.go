package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"bessemer/pxe"
	"bessemer/pxe/dhcp"
	"bessemer/pxe/httpd"
	"bessemer/pxe/ipxe"
	"bessemer/pxe/ra"
	"bessemer/pxe/tftp"
	"bessemer/server/api"
)

// baseURL is how machines reach us, "" without network boot.
func (s *Server) baseURL() string {
	if s.link == nil {
		return ""
	}
	return "http://" + s.provisioningAddr().String()
}

func (s *Server) provisioningAddr() netip.AddrPort {
	port := s.Config.Provisioning.Port
	if s.bootSocket != nil {
		port = s.bootSocket.Addr().(*net.TCPAddr).Port
	}
	return netip.AddrPortFrom(s.link.addr, uint16(port))
}

func (s *Server) listenProvisioning() (err error) {
	if s.link == nil {
		return nil
	}
	addr := s.provisioningAddr().String()
	if s.bootSocket, err = net.Listen("tcp", addr); err != nil {
		return fmt.Errorf("provisioning port %s: %w; choose another: --provisioning-port PORT", addr, err)
	}
	s.closers = append(s.closers, s.bootSocket)
	return nil
}

// openProvisioning opens what machines boot from: DHCP, TFTP, HTTP, router
// advertisements, and keeps the ramdisk built.
func (s *Server) openProvisioning() error {
	if s.link == nil {
		return nil
	}
	nbps, err := ipxe.Load(s.Config.Path("ipxe"))
	if err != nil {
		return err
	}
	s.Add("ramdisk", s.ramdisk.run)
	owner, err := s.openDHCP(nbps)
	return errors.Join(err, s.openTFTP(nbps, owner), s.openHTTP(nbps, owner), s.openRA(), s.openWire())
}

func (s *Server) openDHCP(nbps ipxe.Files) (pxe.Owner, error) {
	c := s.Config.DHCP
	if c.Mode == "off" {
		return nil, nil
	}
	cfg := dhcp.Config{
		Interface: s.link.name, Address: s.link.addr, Mode: dhcp.Mode(c.Mode), BaseURL: s.baseURL(),
		Subnet: s.link.subnet, LeaseTime: c.LeaseTime.D(), HasFile: nbps.Has, Log: s.part("dhcp"),
		NoSockets: s.link.simulated(),
	}
	if c.Mode == "full" {
		var err error
		if cfg.First, cfg.Last, err = s.dhcpRange(); err != nil {
			return nil, err
		}
	}
	if c.Gateway != "" {
		cfg.Gateway = netip.MustParseAddr(c.Gateway) // checked by configs
	}
	for _, a := range c.DNS {
		cfg.DNS = append(cfg.DNS, netip.MustParseAddr(a))
	}
	d, err := dhcp.New(cfg, s.db, s.conductor, s.db)
	if err != nil {
		return nil, err
	}
	if err := d.Open(); err != nil {
		return nil, err
	}
	s.dhcp = d
	s.listeners = append(s.listeners, api.Listener{Name: "dhcp", Address: fmt.Sprintf("%s on %s", c.Mode, s.link.name)})
	s.Add("dhcp", d.Run)
	return d.Owner, nil
}

// dhcpRange is the range of addresses that machines get. Of the simulated
// network, which other appliances of this host share, it is one block.
func (s *Server) dhcpRange() (first, last netip.Addr, err error) {
	if !s.link.simulated() || s.Config.DHCP.Range != "" {
		return s.link.dhcpRange(s.Config.DHCP.Range)
	}
	b, err := claimBlock(s.Config.Path(blockFile))
	if err != nil {
		return first, last, err
	}
	s.closers = append(s.closers, b.claim)
	return b.first(), b.last(), nil
}

func (s *Server) openTFTP(nbps ipxe.Files, owner pxe.Owner) error {
	if !s.Config.TFTP.Enabled {
		return nil
	}
	t := tftp.New(tftp.Config{
		Address: netip.AddrPortFrom(s.link.addr, 0), AnyPort: s.link.simulated(), Files: nbps, Booter: s.conductor, Owner: owner,
		Recorder: s.db, Log: s.part("tftp"),
	})
	if err := t.Open(); err != nil {
		return err
	}
	s.tftp = t
	s.listeners = append(s.listeners, api.Listener{Name: "tftp", Address: t.Addr().String()})
	s.Add("tftp", t.Run)
	return nil
}

func (s *Server) openHTTP(nbps ipxe.Files, owner pxe.Owner) error {
	boot, err := httpd.New(httpd.Config{
		Booter: s.conductor, BaseURL: s.baseURL(), Ramdisk: s.ramdisk.files(),
		NBPs: nbps, KernelArgs: strings.Fields(s.Config.Provisioning.KernelArgs),
		Owner: owner, Recorder: s.db, Log: s.part("boot"),
	})
	if err != nil {
		return err
	}
	if s.bootSocket == nil {
		return nil // told already
	}
	s.listeners = append(s.listeners, api.Listener{Name: "provisioning", Address: s.baseURL()})
	s.Add("provisioning", func(ctx context.Context) error {
		mux := http.NewServeMux()
		mux.Handle(pxe.PathPrefix, boot)
		mux.Handle("/", s.api().ProvisioningHandler())
		return s.serveHTTP(ctx, s.bootSocket, around(s.Prove.Machines, mux), "", "")
	})
	return nil
}

func (s *Server) openRA() error {
	if !s.Config.DHCP.RouterAdv || s.link.simulated() {
		return nil
	}
	r := ra.New(ra.Config{Interface: s.link.name, Log: s.part("ra")})
	if err := r.Open(); err != nil {
		return err
	}
	s.Add("router advertisements", r.Run)
	return nil
}
