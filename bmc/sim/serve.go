package sim

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"
)

// A Server serves a controller on a socket.
type Server struct {
	http  *http.Server
	ended chan struct{}
}

// Serve begins to serve h on lis, by TLS when a certificate is given. The
// caller closes the server.
func Serve(lis net.Listener, h http.Handler, cert *tls.Certificate) *Server {
	s := &Server{
		ended: make(chan struct{}),
		http: &http.Server{
			Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 15 * time.Second,
			ErrorLog: log.New(io.Discard, "", 0), // clients that do not trust the certificate are tests' daily bread
		},
	}
	go func() {
		defer close(s.ended)
		if cert == nil {
			_ = s.http.Serve(lis) // ends by Close
			return
		}
		s.http.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12}
		_ = s.http.ServeTLS(lis, "", "")
	}()
	return s
}

// Close ends the server: requests under way have some seconds to finish.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	<-s.ended
	return err
}

// SelfSigned makes a certificate for addresses, as a controller does when it
// leaves the factory. The second result is its PEM form, for clients.
func SelfSigned(addrs ...net.IP) (*tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("make certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, "", fmt.Errorf("make certificate: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "simulated controller"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true, IPAddresses: addrs, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, "", fmt.Errorf("make certificate: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(text), nil
}
