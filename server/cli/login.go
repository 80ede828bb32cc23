package cli

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"bessemer/configs"
	"bessemer/server/auth"
	"bessemer/server/client"
)

// connect returns a client of the appliance that the flags name, or of the
// local one, whose admin secret it reads.
func connect(c *cli.Context) (*client.Client, error) {
	cfg, err := loadConfig(c)
	if err != nil {
		return nil, err
	}
	base := c.String("url")
	if base == "" {
		base = localURL(cfg)
	}
	var ca []byte
	if f := c.String("ca"); f != "" {
		if ca, err = os.ReadFile(f); err != nil {
			return nil, usagef("--ca: %v", err)
		}
	}
	cl, err := client.New(base, ca)
	if err != nil {
		return nil, usage{err}
	}
	return cl, login(c, cl, cfg)
}

func localURL(cfg configs.Config) string {
	scheme := "http"
	if cfg.API.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + reachable(cfg.API.Listen)
}

// reachable turns a listening address into one to dial.
func reachable(listen string) string {
	for _, any := range []string{"0.0.0.0:", "[::]:", ":"} {
		if port, ok := strings.CutPrefix(listen, any); ok {
			return "127.0.0.1:" + port
		}
	}
	return listen
}

// howToLogin is what every refused login ends with.
const howToLogin = "log in with --user NAME and the password in BESSEMER_PASSWORD, or with a token in BESSEMER_TOKEN"

// login finds the credentials: a token, a user with a password, or the local
// appliance's admin secret. That goes to no other host.
func login(c *cli.Context, cl *client.Client, cfg configs.Config) error {
	if cl.Token = os.Getenv("BESSEMER_TOKEN"); cl.Token != "" {
		cl.Denied = "the token in BESSEMER_TOKEN is not valid, or not any more; " + howToLogin
		return nil
	}
	if cl.User = c.String("user"); cl.User != "" {
		if cl.Password = os.Getenv("BESSEMER_PASSWORD"); cl.Password == "" {
			return usagef("--user %s: give the password in BESSEMER_PASSWORD", cl.User)
		}
		cl.Denied = "the user " + printable(cl.User) + " or the password in BESSEMER_PASSWORD is wrong"
		return nil
	}
	if !isLocal(cl.Base, cfg) {
		cl.Denied = howToLogin
		return nil
	}
	file := cfg.Path(auth.SecretFile)
	raw, err := os.ReadFile(file)
	if err != nil {
		cl.Denied = secretMissing(file, err) + "; " + howToLogin
		return nil
	}
	cl.User, cl.Password = "admin", strings.TrimSpace(string(raw))
	cl.Denied = "the admin secret in " + file + " is not this appliance's, or was changed; " + howToLogin
	return nil
}

func secretMissing(file string, err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return file + " holds the admin secret, but you may not read it"
	}
	return "the local admin secret is not in " + file + "; name the appliance's data directory in BESSEMER_DATA_DIR"
}

// isLocal tells whether a URL leads to this host, whose secret is for nobody
// else.
func isLocal(base string, cfg configs.Config) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	listen, _, _ := net.SplitHostPort(cfg.API.Listen)
	return configs.Loopback(u.Hostname()) || u.Hostname() == listen
}

// advice says what to do about an error, after a semicolon, where that is
// known here; "" elsewhere.
func advice(err error) string {
	u, ok := errors.AsType[*client.Unreachable](err)
	if !ok {
		return ""
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "; give the certificate to trust with --ca FILE"
	}
	if strings.Contains(u.Err.Error(), "HTTP response to HTTPS") {
		return "; it speaks http, not https"
	}
	return "; start one with bessemer serve, or name another with --url URL"
}
