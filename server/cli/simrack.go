package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"bessemer/bmc/sim/flaw"
	"bessemer/bmc/sim/hardware"
	"bessemer/bmc/sim/rack"
	"bessemer/configs"
	"bessemer/server"
	"bessemer/server/auth"
	"bessemer/server/client"
)

// rackDir is where in the data directory simulated machines are kept.
const rackDir = "sim"

const simCategory = "simulated machines"

// usualPace lets a deploy take some twenty seconds.
const usualPace = 0.05

// rackFlags are the flags that say what simulated machines there are to be;
// prefix stands before the names of those that would be unclear without.
func rackFlags(prefix, category string, pace float64) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: prefix + "profile", Category: category, Usage: "`PROFILE,...` of new machines, in turns (default: all of them)"},
		&cli.Uint64Flag{Name: prefix + "seed", Category: category, Value: 1, Usage: "`NUMBER` that fixes everything random about new machines"},
		&cli.StringFlag{Name: prefix + "bmc", Category: category, Value: "mixed", Usage: "`KIND` of their controllers: redfish, ipmi or mixed"},
		&cli.Float64Flag{Name: prefix + "pace", Category: category, Value: pace, Usage: "how long waits last, as a `SHARE` of those of real machines"},
		&cli.StringFlag{Name: "quirk", Category: category, Usage: "`ID,...` of quirks of new machines; see bessemer sim quirks"},
	}
}

// rackOptions is what the flags of rackFlags say.
func rackOptions(c *cli.Context, prefix string) (o rack.Options, err error) {
	o = rack.Options{Seed: c.Uint64(prefix + "seed"), BMC: c.String(prefix + "bmc"), Pace: c.Float64(prefix + "pace"), Version: Version()}
	switch o.BMC {
	case "redfish", "ipmi", "mixed":
	default:
		return o, usagef("--%sbmc %s: it is redfish, ipmi or mixed", prefix, o.BMC)
	}
	if !(o.Pace > 0 && o.Pace <= 100) {
		return o, usagef("--%space %v: it is more than 0 and at most 100", prefix, o.Pace)
	}
	if o.Quirks, err = flaw.ParseIDs(c.String("quirk")); err != nil {
		return o, usagef("--quirk: %v", err)
	}
	for p := range strings.SplitSeq(c.String(prefix+"profile"), ",") {
		if p = strings.TrimSpace(p); p != "" {
			o.Profiles = append(o.Profiles, p)
		}
	}
	known := profileNames(func(hardware.Profile) bool { return true })
	for _, p := range o.Profiles {
		if !slices.Contains(known, p) {
			return o, usagef("--%sprofile %s: there are %s", prefix, p, strings.Join(known, ", "))
		}
	}
	return o, nil
}

// profileNames are those of the profiles that are wanted.
func profileNames(wanted func(hardware.Profile) bool) (names []string) {
	for _, p := range hardware.Profiles() {
		if wanted(p) {
			names = append(names, p.Name)
		}
	}
	return names
}

// addRack opens a rack in the appliance's own process, as a component of it
// together with another that, where that is wanted, makes its machines
// available.
func addRack(s *server.Server, o rack.Options, n int, enroll bool, log zerolog.Logger) (*rack.Rack, error) {
	o.Dir, o.Wire, o.Machines, o.Log = s.Config.Path(rackDir), s.Wire(), n, log.With().Str("part", "rack").Logger()
	r, err := openRack(o, 0)
	if err != nil {
		return nil, err
	}
	control, err := rack.Listen(s.Config.Path(rackDir, rackSocket))
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	s.Add("rack", rackComponent(r, control, o.Log))
	if !enroll {
		return r, nil
	}
	cl, err := ownClient(s)
	if err != nil {
		return nil, errors.Join(err, control.Close(), r.Close())
	}
	s.Add("enrollment", func(ctx context.Context) error {
		begun := time.Now()
		switch err := errors.Join(enrollRack(ctx, cl, r, nil), addTinyImage(ctx, cl)); {
		case ctx.Err() != nil:
		case err != nil:
			o.Log.Error().Err(err).Msg("not all simulated machines could be enrolled")
		default:
			o.Log.Info().Int("machines", len(r.Machines())).Dur("after", time.Since(begun)).Msg("simulated machines are enrolled")
		}
		<-ctx.Done()
		return ctx.Err()
	})
	return r, nil
}

// rackComponent runs a rack in the appliance's process, which goes on when the
// rack is taken down.
func rackComponent(r *rack.Rack, control net.Listener, log zerolog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := runWithControl(ctx, r, control); err != nil {
			return err
		}
		if ctx.Err() == nil {
			log.Warn().Msg("the simulated rack was taken down; it comes back with the next start")
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

// enrollRack makes the machines of a rack available at an appliance that may
// be just starting.
func enrollRack(ctx context.Context, cl *client.Client, r *rack.Rack, seen func(done, total int)) error {
	var machines []enrollment
	for _, m := range r.Machines() {
		machines = append(machines, enrollment(m.Enrollment()))
	}
	if err := awaitAPI(ctx, cl); err != nil {
		return err
	}
	return enroller{cl, seen}.all(ctx, machines)
}

// awaitAPI waits until an appliance answers.
func awaitAPI(ctx context.Context, cl *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, client.Patience)
	defer cancel()
	for {
		resp, err := cl.Do(ctx, http.MethodGet, "/healthz", "", nil)
		if err == nil {
			return resp.Body.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ownClient is a client of the appliance in this process, logged in as admin.
func ownClient(s *server.Server) (*client.Client, error) {
	scheme, listen, _ := strings.Cut(s.URL(), "://")
	cl, err := client.New(scheme+"://"+reachable(listen), nil)
	if err != nil {
		return nil, err
	}
	if s.Config.API.TLSCert != "" {
		if err := trustOwn(cl, s.Config.API); err != nil {
			return nil, err
		}
	}
	if s.Config.API.Auth == "none" {
		return cl, nil
	}
	secret, err := os.ReadFile(s.Config.Path(auth.SecretFile))
	if err != nil {
		return nil, fmt.Errorf("enroll simulated machines: %w; start with --api-auth none on a loopback address, or enroll them with bessemer sim up", err)
	}
	cl.User, cl.Password = "admin", strings.TrimSpace(string(secret))
	return cl, nil
}

// trustOwn makes a client trust the appliance's own certificate, whatever name
// it is for, and no other.
func trustOwn(cl *client.Client, api configs.API) error {
	pair, err := tls.LoadX509KeyPair(api.TLSCert, api.TLSKey)
	if err != nil {
		return err
	}
	cl.HTTP = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // replaced by VerifyPeerCertificate
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if len(raw) == 0 || !bytes.Equal(raw[0], pair.Certificate[0]) {
				return errors.New("not the appliance's own certificate")
			}
			return nil
		},
	}}}
	return nil
}
