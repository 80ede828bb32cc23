package dhcp

import (
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/coredhcp/coredhcp/config"
	"github.com/coredhcp/coredhcp/handler"
	"github.com/coredhcp/coredhcp/logger"
	"github.com/coredhcp/coredhcp/plugins"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/rs/zerolog"
	"github.com/sirupsen/logrus"
)

// coredhcp keeps its plugins and its logger in globals, and gives a plugin
// nothing but strings. What belongs to us of that is here: the plugins are
// registered once for the process, and find their server by its scope, a
// string.
var (
	register sync.Once
	scopes   sync.Map // scope string -> *Server
	bridge   logBridge
)

const (
	pluginAddress = "bessemer-address"
	pluginBoot    = "bessemer-boot"
)

// chain sets the server up as coredhcp would from its configuration and
// returns the handlers.
func (s *Server) chain() ([]handler.Handler4, error) {
	bridge.use(s.log)
	register.Do(registerPlugins)
	scope := fmt.Sprintf("%s/%p", s.cfg.Interface, s)
	scopes.Store(scope, s)
	defer scopes.Delete(scope) // the handlers hold the server from here on
	c := &config.Config{Server4: &config.ServerConfig{
		Addresses: []net.UDPAddr{{IP: net.IPv4zero, Port: dhcpv4.ServerPort, Zone: s.cfg.Interface}},
		Plugins: []config.PluginConfig{
			{Name: pluginAddress, Args: []string{scope}},
			{Name: pluginBoot, Args: []string{scope}},
		},
	}}
	handlers, _, err := plugins.LoadPlugins(c)
	if err != nil {
		return nil, fmt.Errorf("load dhcp plugins for %s: %w", s.cfg.Interface, err)
	}
	return handlers, nil
}

func registerPlugins() {
	l := logger.GetLogger("bessemer").Logger
	l.SetOutput(io.Discard)
	l.AddHook(&bridge)
	for name, of := range map[string]func(*Server) handler.Handler4{
		pluginAddress: func(s *Server) handler.Handler4 { return s.giveAddress },
		pluginBoot:    func(s *Server) handler.Handler4 { return s.giveBoot },
	} {
		// The error is for a nil plugin only.
		_ = plugins.RegisterPlugin(&plugins.Plugin{Name: name, Setup4: setup(of)})
	}
}

func setup(of func(*Server) handler.Handler4) plugins.SetupFunc4 {
	return func(args ...string) (handler.Handler4, error) {
		if len(args) != 1 {
			return nil, fmt.Errorf("want one argument, the scope, not %d", len(args))
		}
		s, ok := scopes.Load(args[0])
		if !ok {
			return nil, fmt.Errorf("no dhcp server with scope %s", args[0])
		}
		return of(s.(*Server)), nil
	}
}

// A logBridge hands coredhcp's logrus lines to the first server's logger: its
// messages do not say which server they are about.
type logBridge struct {
	mu  sync.Mutex
	log *zerolog.Logger
}

func (b *logBridge) use(l zerolog.Logger) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = &l
}

// Levels implements logrus.Hook.
func (b *logBridge) Levels() []logrus.Level { return logrus.AllLevels }

// Fire implements logrus.Hook.
func (b *logBridge) Fire(e *logrus.Entry) error {
	b.mu.Lock()
	l := b.log
	b.mu.Unlock()
	if l == nil {
		return nil
	}
	level := zerolog.DebugLevel // coredhcp's info is our debug
	if e.Level <= logrus.WarnLevel {
		level = zerolog.WarnLevel
	}
	l.WithLevel(level).Str("from", "coredhcp").Msg(e.Message)
	return nil
}
