package rack

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"bessemer/bmc/sim/flaw"
)

// downloads lets the faults of an image server hit what an agent downloads:
// image-stall, image-cut and image-corrupt, each at byte At of the file.
type downloads struct {
	next  http.RoundTripper
	flaws *flaw.Set
	hit   func() // called after a fault has hit
}

// RoundTrip implements http.RoundTripper.
func (d downloads) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.next.RoundTrip(r)
	if err != nil || !isImage(r, resp) {
		return resp, err
	}
	from := firstByte(resp)
	for _, k := range []flaw.Kind{flaw.ImageStall, flaw.ImageCut, flaw.ImageCorrupt} {
		f, ok := d.flaws.Find(k)
		if !ok || f.At < from || resp.ContentLength >= 0 && f.At >= from+resp.ContentLength {
			continue
		}
		if f, ok = d.flaws.Hit(k); ok {
			resp.Body = &broken{ReadCloser: resp.Body, request: r, kind: k, left: f.At - from}
			d.hit()
		}
	}
	return resp, nil
}

// isImage tells an image from a config drive, a file of checksums and errors.
func isImage(r *http.Request, resp *http.Response) bool {
	name := strings.ToLower(path.Base(r.URL.Path))
	return r.Method == http.MethodGet && resp.StatusCode < 300 &&
		!strings.Contains(name, "configdrive") && !strings.Contains(name, "sum")
}

// firstByte is where in the file an answer begins (RFC 9110, 14.4).
func firstByte(resp *http.Response) int64 {
	var from int64
	if resp.StatusCode == http.StatusPartialContent {
		_, _ = fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-", &from) // 0 if it is no range
	}
	return from
}

// broken is a body that goes wrong at a byte.
type broken struct {
	io.ReadCloser
	request *http.Request
	kind    flaw.Kind
	left    int64 // bytes before it goes wrong; negative when it has
}

// Read implements io.Reader.
func (b *broken) Read(p []byte) (int, error) {
	if b.left < 0 || len(p) == 0 {
		return b.ReadCloser.Read(p)
	}
	if b.kind != flaw.ImageCorrupt {
		if b.left == 0 {
			return 0, b.end()
		}
		p = p[:min(int64(len(p)), b.left)]
	}
	n, err := b.ReadCloser.Read(p)
	if b.kind == flaw.ImageCorrupt && b.left < int64(n) {
		p[b.left] ^= 0x40
		b.left = -1
		return n, err
	}
	b.left -= int64(n)
	return n, err
}

// end is how the connection goes wrong: it says nothing until the client has
// enough, or breaks.
func (b *broken) end() error {
	if b.kind == flaw.ImageStall {
		<-b.request.Context().Done()
		return b.request.Context().Err()
	}
	_ = b.Close() // it breaks anyway
	return io.ErrUnexpectedEOF
}
