package redfish

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"bessemer/bmc"
)

// trust says which certificates a controller may show.
type trust struct {
	anyone bool                // no check at all
	roots  *x509.CertPool      // nil: the operating system's
	pinned []*x509.Certificate // accepted as they are, whatever name they bear
}

const (
	maxCertFile  = 1 << 20
	maxCertFiles = 1000
)

// readTrust reads redfish_verify_ca: a truth value, or the path of a PEM file
// or of a directory of such files.
func readTrust(f *bmc.Fields) *trust {
	const key = "redfish_verify_ca"
	s, verify := f.BoolOrString(key, true)
	if s == "" {
		return &trust{anyone: !verify}
	}
	if !filepath.IsAbs(s) {
		f.Fault(key, "must be true, false, or the absolute path of a PEM file or directory, is %q", s)
		return nil
	}
	t, err := loadTrust(s)
	if err != nil {
		f.Fault(key, "%v", err)
	}
	return t
}

func loadTrust(name string) (*trust, error) {
	names := []string{name}
	if st, err := os.Stat(name); err != nil {
		return nil, err
	} else if st.IsDir() {
		if names, err = pemFiles(name); err != nil {
			return nil, err
		}
	}
	t := &trust{roots: x509.NewCertPool()}
	for _, name := range names {
		if err := t.load(name); err != nil {
			return nil, err
		}
	}
	if len(t.pinned) == 0 {
		return nil, fmt.Errorf("no certificate in PEM form in %s", name)
	}
	return t, nil
}

func pemFiles(dir string) ([]string, error) {
	var names []string
	es, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range es {
		switch filepath.Ext(e.Name()) {
		case ".pem", ".crt", ".cer":
			names = append(names, filepath.Join(dir, e.Name()))
		}
		if len(names) == maxCertFiles {
			break
		}
	}
	return names, nil
}

// load adds the certificates of a PEM file. What else the file holds is never
// shown.
func (t *trust) load(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxCertFile))
	if err != nil {
		return err
	}
	for {
		var block *pem.Block
		if block, raw = pem.Decode(raw); block == nil {
			return nil
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("certificate in %s: %w", name, err)
		}
		t.roots.AddCert(cert)
		t.pinned = append(t.pinned, cert)
	}
}

// config returns the TLS configuration for one controller. It is never shared
// with another one's, and never http.DefaultTransport's (H1).
func (t *trust) config(host string) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		CipherSuites: cipherSuites(),
		// The check is ours, below, so that a pinned certificate is enough
		// and a refused one can be told apart.
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			return t.check(cs.PeerCertificates, host)
		},
	}
}

// cipherSuites are Go's defaults and the RSA key exchange with AES, which is
// all that some controllers of the last decade offer.
func cipherSuites() []uint16 {
	var ids []uint16
	for _, s := range tls.CipherSuites() {
		ids = append(ids, s.ID)
	}
	return append(ids,
		tls.TLS_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_RSA_WITH_AES_256_CBC_SHA, tls.TLS_RSA_WITH_AES_128_CBC_SHA)
}

func (t *trust) check(chain []*x509.Certificate, host string) error {
	if t.anyone {
		return nil
	}
	if len(chain) == 0 {
		return fmt.Errorf("%w: the controller shows none", bmc.ErrTLS)
	}
	leaf := chain[0]
	for _, p := range t.pinned {
		if bytes.Equal(p.Raw, leaf.Raw) {
			return nil
		}
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: t.roots, Intermediates: between, DNSName: host})
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w; the controller at %s shows a certificate of %q with SHA-256 fingerprint %s; "+
		"if it is the right one, save it as a PEM file and set redfish_verify_ca to the file's path; redfish_verify_ca=false trusts any certificate",
		bmc.ErrTLS, plainly(err), host, leaf.Subject.String(), fingerprint(leaf))
}

// plainly shortens the commonest reasons.
func plainly(err error) error {
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return errors.New("signed by an unknown authority")
	}
	return err
}

// fingerprint is the SHA-256 of a certificate as openssl x509 -fingerprint
// writes it.
func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
}
