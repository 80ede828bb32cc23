package agent

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"unicode"

	"bessemer/agent/disk"
	"bessemer/agent/fetch"
	"bessemer/agent/image"
	"bessemer/agent/wire"
)

// limits are those of a download of at most so many bytes; 0: of any size.
func (x *executor) limits(size int64) fetch.Limits {
	return fetch.Limits{MaxSize: size, Stall: x.Stall, Dice: x.Dice}
}

// source is an image at a URL.
type source struct {
	client  *http.Client
	policy  fetch.Policy
	url     string
	limits  fetch.Limits
	version string // of the file that was opened last
}

// Open implements image.Source.
func (s *source) Open(ctx context.Context) (image.File, error) {
	if _, err := s.policy.Check(s.url); err != nil {
		return nil, fmt.Errorf("get image: %w", err)
	}
	f, err := fetch.Open(ctx, s.client, s.url, s.limits)
	if err != nil {
		return nil, err
	}
	s.version = f.Version()
	return f, nil
}

// changed asks whether another file is at the URL than when it was opened. A
// server that cannot tell gives no reason to think so.
func (s *source) changed(ctx context.Context) bool {
	f, err := fetch.Open(ctx, s.client, s.url, fetch.Limits{Attempts: 1})
	if err != nil {
		return false
	}
	defer f.Close()
	return f.Version() != s.version
}

func isURL(s string) bool {
	s = strings.ToLower(s)
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// maxText is the largest checksum file and the largest config drive as text.
const maxText = 2 * disk.MaxConfigDrive

// checksum is the image's checksum: os_hash_* is preferred; the old field may
// be a URL of a file of checksums.
func (x *executor) checksum(ctx context.Context, i wire.ImageInfo) (image.Checksum, error) {
	if i.OSHashAlgo != "" && i.OSHashValue != "" {
		if !isURL(i.OSHashValue) {
			return image.Checksum{Algorithm: strings.ToLower(i.OSHashAlgo), Hex: i.OSHashValue}, nil
		}
		return x.fetchChecksum(ctx, i.OSHashValue, i.URLs[0])
	}
	if isURL(i.Checksum) {
		return x.fetchChecksum(ctx, i.Checksum, i.URLs[0])
	}
	return image.ParseChecksum(i.Checksum)
}

func (x *executor) fetchChecksum(ctx context.Context, from, imageURL string) (image.Checksum, error) {
	if _, err := x.Policy.Check(from); err != nil {
		return image.Checksum{}, fmt.Errorf("get checksum: %w", err)
	}
	b, err := fetch.ReadAll(ctx, x.client, from, x.limits(1<<20))
	if err != nil {
		return image.Checksum{}, fmt.Errorf("get checksum: %w", err)
	}
	name := path.Base(strings.SplitN(imageURL, "?", 2)[0])
	sum, err := findChecksum(string(b), name)
	if err != nil {
		return image.Checksum{}, fmt.Errorf("checksum file: %w", err)
	}
	return image.ParseChecksum(sum)
}

// findChecksum finds a file's checksum in the output of sha256sum, in BSD's
// style, or in a file that holds nothing but one checksum.
func findChecksum(text, name string) (string, error) {
	var sums []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 1 && isHex(f[0]):
			sums = append(sums, f[0])
		case len(f) == 2 && isHex(f[0]) && path.Base(strings.TrimPrefix(f[1], "*")) == name:
			return f[0], nil
		case len(f) == 4 && f[2] == "=" && isHex(f[3]) && strings.Trim(f[1], "()") == name:
			return f[3], nil
		}
	}
	if len(sums) == 1 {
		return sums[0], nil
	}
	return "", fmt.Errorf("%w: it does not name %s", image.ErrNoChecksum, short(name))
}

func isHex(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) >= 16
}

// configDrive gets a config drive's bytes: text is "" (nil), a URL, or base64
// of gzip of the image; a URL gives such text, or gzip, or the image itself.
func (x *executor) configDrive(ctx context.Context, text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	b := []byte(text)
	if isURL(text) {
		if _, err := x.Policy.Check(text); err != nil {
			return nil, fmt.Errorf("get config drive: %w", err)
		}
		var err error
		if b, err = fetch.ReadAll(ctx, x.client, text, x.limits(maxText)); err != nil {
			return nil, fmt.Errorf("get config drive: %w", err)
		}
	}
	return decodeConfigDrive(b)
}

func decodeConfigDrive(b []byte) ([]byte, error) {
	if isBase64(b) {
		raw := make([]byte, base64.StdEncoding.DecodedLen(len(b)))
		n, err := base64.StdEncoding.Decode(raw, bytes.Map(dropSpace, b))
		if err != nil {
			return nil, fmt.Errorf("decode config drive: it is not base64: %w", err)
		}
		b = raw[:n]
	}
	if !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		return b, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("decode config drive: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(z, disk.MaxConfigDrive+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("decode config drive: it is not gzip: %w", err)
	case len(out) > disk.MaxConfigDrive:
		return nil, fmt.Errorf("decode config drive: unpacked it is larger than %d bytes", disk.MaxConfigDrive)
	case len(out) == 0:
		return nil, errors.New("decode config drive: it is empty")
	}
	return out, nil
}

// isBase64 looks at the beginning: gzip and disk images start with bytes that
// base64 does not have.
func isBase64(b []byte) bool {
	for _, c := range b[:min(len(b), 64)] {
		if !unicode.IsSpace(rune(c)) && !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=", rune(c)) {
			return false
		}
	}
	return true
}

func dropSpace(r rune) rune {
	if unicode.IsSpace(r) {
		return -1
	}
	return r
}
