package firmware

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// maxFrame is the largest packet taken: a frame's worth.
const maxFrame = 2048

// wireState is the JSON of GET /wire.
type wireState struct {
	TFTP   netip.AddrPort `json:"tftp"`
	Kernel string         `json:"kernel,omitempty"`
	Initrd string         `json:"initrd,omitempty"`
}

// tftpHeader tells with each packet where TFTP is reached.
const tftpHeader = "Bessemer-TFTP"

// Handler serves a Wire, so that machines of another process can use it: give
// it a unix socket of mode 0600. POST /dhcp?port=67 takes and returns a packet,
// 204 stands for no reply; GET /wire tells the rest as JSON.
func Handler(w Wire) http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("POST /dhcp", func(rw http.ResponseWriter, r *http.Request) { carry(w, rw, r) })
	m.HandleFunc("GET /wire", func(rw http.ResponseWriter, _ *http.Request) {
		kernel, initrd := w.Ramdisk()
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(wireState{w.TFTP(), kernel, initrd}) // who asked has gone
	})
	return m
}

func carry(w Wire, rw http.ResponseWriter, r *http.Request) {
	port, err := strconv.ParseUint(r.URL.Query().Get("port"), 10, 16)
	if err != nil {
		http.Error(rw, "port is not a number", http.StatusBadRequest)
		return
	}
	packet, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxFrame))
	if err != nil {
		http.Error(rw, "packet is longer than a frame", http.StatusRequestEntityTooLarge)
		return
	}
	reply, err := w.DHCP(r.Context(), packet, int(port))
	switch {
	case err != nil:
		http.Error(rw, err.Error(), http.StatusBadGateway)
	case reply == nil:
		rw.WriteHeader(http.StatusNoContent)
	default:
		rw.Header().Set("Content-Type", "application/octet-stream")
		rw.Header().Set(tftpHeader, w.TFTP().String())
		_, _ = rw.Write(reply) // who asked has gone
	}
}

// remote is the machine's end of a Wire that another process serves.
type remote struct {
	client http.Client

	mu    sync.Mutex
	state wireState
	asked time.Time
}

const (
	remoteTimeout = 15 * time.Second
	stateAge      = 2 * time.Second // how long TFTP and Ramdisk hold
)

// NewRemote returns the other end of a [Handler] behind a unix socket. While
// nobody serves there, DHCP returns an error; once somebody does again, it
// works again.
func NewRemote(socket string) Wire {
	d := net.Dialer{Timeout: 5 * time.Second}
	return &remote{client: http.Client{
		Timeout: remoteTimeout,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return d.DialContext(ctx, "unix", socket)
			},
			MaxIdleConnsPerHost: 32, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
		},
	}}
}

// DHCP implements Wire.
func (r *remote) DHCP(ctx context.Context, packet []byte, port int) ([]byte, error) {
	q := url.Values{"port": {strconv.Itoa(port)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://wire/dhcp?"+q.Encode(), bytes.NewReader(packet))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.GetBody = nil // a packet that may have arrived is not sent again
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("carry a packet to the appliance: %w", err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxFrame+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("carry a packet to the appliance: %w", err)
	case resp.StatusCode >= http.StatusInternalServerError:
		return nil, fmt.Errorf("carry a packet to the appliance: %s: %.200s", resp.Status, reply)
	case resp.StatusCode != http.StatusOK || len(reply) > maxFrame:
		return nil, nil
	}
	r.restarted(resp.Header.Get(tftpHeader))
	return reply, nil
}

// restarted forgets what the appliance has told, if its TFTP server is
// elsewhere now: that is another process, and what DHCP offers is to be had
// from that one.
func (r *remote) restarted(tftp string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if tftp != r.state.TFTP.String() {
		r.asked = time.Time{}
	}
}

// TFTP implements Wire.
func (r *remote) TFTP() netip.AddrPort { return r.ask().TFTP }

// Ramdisk implements Wire.
func (r *remote) Ramdisk() (kernel, initrd string) {
	s := r.ask()
	return s.Kernel, s.Initrd
}

// ask returns what the appliance last told, asking again when that is old.
func (r *remote) ask() wireState {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) < stateAge {
		return r.state
	}
	if s, err := r.fetch(); err == nil {
		r.state, r.asked = s, time.Now()
	}
	return r.state
}

func (r *remote) fetch() (s wireState, err error) {
	resp, err := r.client.Get("http://wire/wire")
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return s, errors.New(resp.Status)
	}
	return s, json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&s)
}
