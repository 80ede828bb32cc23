package firmware

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"time"

	"bessemer/bmc/sim/flaw"
)

const (
	// stallTime is how long a download may stand still, and headTime how long
	// an answer may take to begin. They are not paced, see carryTime.
	stallTime = 60 * time.Second
	headTime  = 30 * time.Second
)

// A statusError is an HTTP answer other than 200.
type statusError int

// Error implements error.
func (s statusError) Error() string { return fmt.Sprintf("HTTP status %d", int(s)) }

// buffers are shared by all machines: each holds one while it downloads.
var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// agent returns the HTTP client of one request: from the leased address, a
// connection of its own, to nowhere but the loopback.
func (m *machine) agent() *http.Client {
	d := &net.Dialer{
		LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(m.nic.lease.IP, 0)),
		Timeout:   headTime,
		Control:   onlyLoopback,
	}
	return &http.Client{Transport: &http.Transport{
		DialContext: d.DialContext, DisableKeepAlives: true, DisableCompression: true, ResponseHeaderTimeout: headTime, MaxResponseHeaderBytes: 16 << 10,
	}}
}

// onlyLoopback keeps a simulated machine from real networks.
func onlyLoopback(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if !to.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s is no address of the simulated network", address)
	}
	return nil
}

// head asks for the size of a boot program, as UEFI HTTP boot does; -1 for one
// that the answer does not tell. EDK2 takes no answer without it (D-19).
func (m *machine) head(ctx context.Context, u *url.URL) (int64, error) {
	resp, err := m.do(ctx, http.MethodHead, u)
	if err != nil {
		return -1, fmt.Errorf("ask for the size of %s: %w", u.Redacted(), err)
	}
	defer resp.Body.Close()
	if err := m.strict(resp); err != nil {
		return -1, fmt.Errorf("ask for the size of %s: %w", u.Redacted(), err)
	}
	return resp.ContentLength, nil
}

// strict is what EDK2 wants of an answer (D-19).
func (m *machine) strict(resp *http.Response) error {
	switch {
	case !m.on("D-19"):
		return nil
	case !resp.ProtoAtLeast(1, 1):
		return fmt.Errorf("the answer is %s, want HTTP/1.1", resp.Proto)
	case resp.ContentLength <= 0 || len(resp.TransferEncoding) > 0:
		return errors.New("the answer has no Content-Length")
	}
	return nil
}

func (m *machine) do(ctx context.Context, method string, u *url.URL) (*http.Response, error) {
	if err := m.connectable(ctx); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "iPXE/1.21.1")
	var resp *http.Response
	err = m.through(ctx, refused, func() (err error) {
		resp, err = m.agent().Do(req)
		return err
	})
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, statusError(resp.StatusCode)
	}
	return resp, nil
}

// get fetches a URL into sink and records it under name once it is here whole.
func (m *machine) get(ctx context.Context, u *url.URL, name string, sink io.Writer) (File, error) {
	f := File{Name: name, URL: u.Redacted()}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(stallTime, func() { cancel(errTimeout) })
	defer stall.Stop()
	resp, err := m.do(ctx, http.MethodGet, u)
	if err != nil {
		return f, fmt.Errorf("fetch %s: %w", f.URL, causeOf(ctx, err))
	}
	defer resp.Body.Close()
	if err := m.strict(resp); err != nil {
		return f, fmt.Errorf("fetch %s: %w", f.URL, err)
	}
	sum := sha256.New()
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	to := io.MultiWriter(sum, sink, progress{stall})
	f.Size, err = io.CopyBuffer(struct{ io.Writer }{to}, m.cut(resp, name), *buf)
	switch {
	case err != nil:
		return f, fmt.Errorf("fetch %s: after %d bytes: %w", f.URL, f.Size, causeOf(ctx, err))
	case resp.ContentLength >= 0 && f.Size != resp.ContentLength:
		return f, fmt.Errorf("fetch %s: connection ended after %d bytes of %s", f.URL, f.Size, strconv.FormatInt(resp.ContentLength, 10))
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	m.files = append(m.files, f)
	return f, nil
}

// causeOf is why a context ended where that is why a request failed.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// progress keeps a download from counting as stalled.
type progress struct{ stall *time.Timer }

// Write implements io.Writer.
func (p progress) Write(b []byte) (int, error) {
	p.stall.Reset(stallTime)
	return len(b), nil
}

// cut ends the download of a kernel or initramfs early while that fault is on:
// behind byte At, or in the middle.
func (m *machine) cut(resp *http.Response, name string) io.Reader {
	if name != kernelName && name != initrdName {
		return resp.Body
	}
	f, hit := m.Flaws.Hit(flaw.KernelCut)
	if !hit {
		return resp.Body
	}
	if f.At == 0 {
		f.At = resp.ContentLength / 2
	}
	return io.LimitReader(resp.Body, max(0, min(f.At, resp.ContentLength-1)))
}
