package server

import (
	"net/netip"

	"github.com/rs/zerolog"

	"bessemer/agent/fetch"
	"bessemer/pxe/dhcp"
	"bessemer/pxe/images"
	"bessemer/server/api"
	"bessemer/server/auth"
	"bessemer/server/conductor"
	"bessemer/ui"
)

// policy is which addresses the URLs of clients may lead to.
func (s *Server) policy() fetch.Policy {
	p := fetch.Policy{DenyPorts: s.ownAddresses()}
	if s.link.simulated() { // loopback, which is refused by default
		p.Allow = append(p.Allow, s.link.subnet, simulatedControllers)
	}
	for _, t := range s.Config.Outgoing.Allow {
		p.Allow = append(p.Allow, netip.MustParsePrefix(t)) // checked by configs
	}
	for _, t := range s.Config.Outgoing.Deny {
		p.Deny = append(p.Deny, netip.MustParsePrefix(t))
	}
	return p
}

func (s *Server) openImages() (*images.Store, error) {
	return images.Open(s.Config.Path("images"), s.db, s.policy())
}

func (s *Server) conductorConfig(images *images.Store) conductor.Config {
	c := s.Config.Conductor
	sync := c.PowerSyncInterval.D()
	if sync == 0 {
		sync = -1 // never
	}
	out := conductor.Config{
		DB: s.db, BMC: s.pool, Types: s.Types, Images: images, Policy: s.policy(),
		BaseURL: s.baseURL(), Hostname: c.Hostname, Dir: s.Config.Dir(), Log: s.part("conductor"),
		Workers: c.Workers, MaxBoots: c.MaxBoots, MaxImageStreams: c.MaxImageStreams,
		Timeouts: conductor.Timeouts{
			DeployCallback: c.DeployTimeout.D(), CleanCallback: c.CleanTimeout.D(), Boot: c.BootTimeout.D(),
			Heartbeat: c.HeartbeatTimeout.D(), PowerSync: sync,
		},
		NoAutomatedClean: !c.AutomatedClean,
		KeepPowerOnError: !c.PowerOffOnFailure,
		Crash:            s.Crash,
		AgentTransport:   s.Prove.Agent,
	}
	if s.Prove.Times != nil {
		s.Prove.Times(&out.Timeouts)
	}
	return out
}

// A refresher is the conductor as the API sees it: what clients change reaches
// the DHCP server at once as well.
type refresher struct {
	*conductor.Conductor
	dhcp *dhcp.Server // nil: none
	log  zerolog.Logger
}

// NodeChanged implements [conductor.API].
func (r refresher) NodeChanged(node string) {
	r.Conductor.NodeChanged(node)
	if r.dhcp == nil {
		return
	}
	if err := r.dhcp.RefreshNode(node); err != nil {
		r.log.Warn().Err(err).Msg("the DHCP server has not taken up a change yet")
	}
}

func (s *Server) newAPI(a *auth.Auth, images api.Images) *api.API {
	return api.New(api.Config{
		DB: s.db, Conductor: refresher{s.conductor, s.dhcp, s.part("dhcp")}, Images: images, Auth: a, Log: s.part("api"),
		PublicEndpoint: s.Config.API.PublicURL, Hosts: s.Config.API.Hosts, Version: s.Version,
		Listeners: s.listeners, UI: ui.Handler(), Ready: s.notReady, Ending: s.ending,
	})
}

// notReady says what keeps the appliance from deploying machines.
func (s *Server) notReady() []string {
	if s.link == nil {
		return nil // not asked to
	}
	return s.ramdisk.missing()
}
