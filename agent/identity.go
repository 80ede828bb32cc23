package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strconv"
	"time"
)

// listener is the socket for commands; it is open before anything else is
// done, so that a taken port is known at once.
type listener struct {
	net.Listener
	port int
}

func listen(c Config) (*listener, error) {
	ln := c.Listener
	if ln == nil {
		var err error
		if ln, err = net.Listen("tcp", c.Listen); err != nil {
			return nil, fmt.Errorf("listen for commands: %w; is another agent running?", err)
		}
	}
	addr, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		ln.Close()
		return nil, fmt.Errorf("listen for commands: %v is not a TCP address", ln.Addr())
	}
	return &listener{ln, addr.Port}, nil
}

// identity is where the server reaches us and how it knows that it is us.
type identity struct {
	url  string
	pem  []byte           // nil: plain HTTP, for servers older than 1.68
	cert *tls.Certificate // nil likewise
}

func newIdentity(c Config, ln *listener, n *node) (*identity, error) {
	host := c.AdvertiseHost
	if host == "" {
		if n.local == nil || n.local.IsUnspecified() {
			return nil, errors.New("find our own address: the connection to the server has none; set ipa-advertise-host")
		}
		host = n.local.String()
	}
	at := net.JoinHostPort(host, strconv.Itoa(ln.port))
	if n.minor < heartbeatVersion {
		return &identity{url: "http://" + at}, nil
	}
	id := &identity{url: "https://" + at}
	var err error
	id.cert, id.pem, err = selfSigned(host, c.Now(), n.date)
	return id, err
}

// selfSigned makes a certificate for a host that is valid from an hour before
// the earlier of the two clocks, ours and the server's, since a machine's clock
// may be hours off.
func selfSigned(host string, ours, servers time.Time) (*tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, fmt.Errorf("make serial number: %w", err)
	}
	from, until := ours, ours
	if !servers.IsZero() {
		from, until = earlier(ours, servers), later(ours, servers)
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: host},
		NotBefore: from.Add(-time.Hour), NotAfter: until.Add(30 * 24 * time.Hour),
	}
	if ip := net.ParseIP(host); ip != nil {
		t.IPAddresses = []net.IP{ip}
	} else {
		t.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
