package load

import (
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

// An ear is where the stand-in agents take commands: it says of each that it
// runs.
type ear struct {
	url, ca string
	server  *http.Server
	done    chan struct{}
}

func listen() (*ear, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	host := net.IPv4(127, 0, 0, 1)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "load"}, IPAddresses: []net.IP{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	l, err := tls.Listen("tcp", net.JoinHostPort(host.String(), "0"), &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	})
	if err != nil {
		return nil, err
	}
	e := &ear{
		url: "https://" + l.Addr().String(), done: make(chan struct{}),
		ca: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		server: &http.Server{
			Handler: http.HandlerFunc(runs), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		},
	}
	go func() {
		defer close(e.done)
		_ = e.server.Serve(l) // returns when it is closed
	}()
	return e, nil
}

// runs answers any command, and the list of them.
func runs(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		fmt.Fprint(w, `{"commands":[]}`)
		return
	}
	fmt.Fprint(w, `{"id":"1","command_name":"load","command_status":"RUNNING","command_error":null,"command_result":null}`)
}

func (e *ear) close() {
	e.server.Close()
	<-e.done
}
