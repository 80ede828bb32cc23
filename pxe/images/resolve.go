package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"bessemer/store"
)

// Resolved is the image that an instance_info names.
type Resolved struct {
	Image       *store.Image // nil unless the appliance keeps it
	URL         string       // where it lies, unless the appliance keeps it
	Size        int64        // bytes of the file, -1 for unknown
	Format      string       // raw or qcow2, of what is inside when it is packed
	Packed      string       // gz, zst, xz or ""
	VirtualSize int64        // bytes on the disk, 0 for unknown
	HashAlgo    string       // sha256 or sha512
	HashValue   string       // hex
}

// probeTime is how long the server of an image may take to say what it is.
const probeTime = time.Minute

const howToName = "set it to the name of an image that was added with `bessemer image add`, or to an http or https URL"

// Resolve finds the image that instanceInfo names in image_source: the name or
// UUID of an image that the appliance keeps (also as glance://UUID), or a URL.
// A URL must come with a checksum (image_os_hash_algo and image_os_hash_value,
// or image_checksum); the first bytes behind it are fetched, to see that the
// image is there and can be deployed.
//
// An error that instanceInfo is to blame for is ErrInvalid, ErrFormat,
// fetch.ErrRefused or store.ErrNotFound; others may go away.
func (s *Store) Resolve(ctx context.Context, instanceInfo map[string]any) (Resolved, error) {
	w, err := readWish(instanceInfo)
	if err != nil {
		return Resolved{}, err
	}
	var r Resolved
	switch scheme, rest, ok := strings.Cut(w.source, "://"); {
	case ok && strings.EqualFold(scheme, "glance"):
		r, err = s.resolveKept(rest, w)
	case hasScheme(w.source):
		r, err = s.resolveURL(ctx, w)
	default:
		r, err = s.resolveKept(w.source, w)
	}
	if err != nil {
		return Resolved{}, fmt.Errorf("image_source %q: %w", shownSource(w.source), err)
	}
	if w.format != "" && w.format != r.Format {
		return Resolved{}, fmt.Errorf("image_source %q: image_disk_format says %s but the content is %s: %w: correct it, or leave it out",
			shownSource(w.source), w.format, r.Format, ErrInvalid)
	}
	return r, nil
}

func shownSource(source string) string {
	if hasScheme(source) && strings.Contains(source, "://") {
		return withoutQuery(source)
	}
	return source
}

// A wish is what an instance_info says of the image.
type wish struct {
	source, format            string
	checksum, hashAlgo, value string
}

// readWish reads the keys of instance_info that are about the image.
func readWish(info map[string]any) (wish, error) {
	var w wish
	var imageType string
	for key, to := range map[string]*string{
		"image_source": &w.source, "image_disk_format": &w.format, "image_checksum": &w.checksum,
		"image_os_hash_algo": &w.hashAlgo, "image_os_hash_value": &w.value, "image_type": &imageType,
	} {
		switch v := info[key].(type) {
		case nil:
		case string:
			*to = strings.TrimSpace(v)
		default:
			return w, fmt.Errorf("instance_info/%s is %w: it is not a text", key, ErrInvalid)
		}
	}
	w.format = strings.ToLower(w.format)
	switch {
	case w.source == "":
		return w, fmt.Errorf("instance_info has no image_source: %w: %s", ErrInvalid, howToName)
	case imageType != "" && imageType != "whole-disk" && imageType != "whole-disk-image":
		return w, fmt.Errorf("instance_info/image_type %q is %w: only whole-disk images can be deployed", imageType, ErrInvalid)
	case w.format != "" && w.format != "raw" && w.format != "qcow2":
		return w, fmt.Errorf("instance_info/image_disk_format %q is %w: it must be raw or qcow2", w.format, ErrInvalid)
	}
	return w, nil
}

// resolveKept finds an image of the appliance. A checksum may be given, and
// must then be right.
func (s *Store) resolveKept(ident string, w wish) (Resolved, error) {
	image, err := s.Get(ident)
	if errors.Is(err, store.ErrNotFound) {
		return Resolved{}, fmt.Errorf("there is no such image: %w: %s", err, howToName)
	}
	if err != nil {
		return Resolved{}, err
	}
	f, err := s.OpenFile(image.UUID)
	if err != nil {
		return Resolved{}, err
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		return Resolved{}, err
	}
	if info.Size() != image.Size {
		return Resolved{}, fmt.Errorf("its file has %d bytes, not %d: %w: delete the image and add it again", info.Size(), image.Size, store.ErrCorrupt)
	}
	if err := w.confirm(image); err != nil {
		return Resolved{}, err
	}
	return Resolved{
		Image: image, Size: image.Size, Format: image.Format, Packed: image.Packed, VirtualSize: image.VirtualSize,
		HashAlgo: "sha256", HashValue: image.SHA256,
	}, nil
}

// confirm compares a given checksum with a kept image's. One that is a URL, or
// of a kind that is not kept, adds nothing and is passed over.
func (w wish) confirm(image *store.Image) error {
	given, err := w.given()
	if err != nil || given.value == "" {
		return err
	}
	if have := map[string]string{"sha256": image.SHA256, "sha512": image.SHA512}[given.algo]; have != given.value {
		return fmt.Errorf("its %s is %s, not %s as instance_info says: %w", given.algo, have, given.value, ErrInvalid)
	}
	return nil
}

// given returns the checksum that instance_info holds itself. Clients of
// OpenStack send an MD5 beside a better one; that is passed over.
func (w wish) given() (checksum, error) {
	switch {
	case w.hashAlgo != "" && w.value != "":
		return newChecksum("instance_info/image_os_hash_value", w.hashAlgo, w.value)
	case w.hashAlgo != "" || w.value != "":
		return checksum{}, fmt.Errorf("instance_info is %w: image_os_hash_algo and image_os_hash_value go together", ErrInvalid)
	case w.checksum == "" || isURL(w.checksum):
		return checksum{}, nil
	}
	return parseChecksum("instance_info/image_checksum", w.checksum)
}

// isURL tells a URL (of any scheme: the policy judges it) from "sha256:...".
func isURL(s string) bool {
	scheme, _, _ := strings.Cut(s, ":")
	return hasScheme(s) && !strings.HasPrefix(strings.ToLower(scheme), "sha") && !strings.EqualFold(scheme, "md5")
}

func (s *Store) resolveURL(ctx context.Context, w wish) (Resolved, error) {
	if _, err := s.policy.Check(w.source); err != nil {
		return Resolved{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	sum, err := w.given()
	if err != nil {
		return Resolved{}, err
	}
	if sum.value == "" && w.checksum == "" {
		return Resolved{}, fmt.Errorf("a URL needs a checksum: %w: set image_checksum to the file's SHA-256 or SHA-512 in hex or to the URL of a file like SHA256SUMS, or set image_os_hash_algo and image_os_hash_value", ErrInvalid)
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if sum.value == "" {
		if sum, err = s.fetchChecksum(ctx, w.checksum, w.source); err != nil {
			return Resolved{}, err
		}
	}
	head, size, err := s.probe(ctx, w.source)
	if err != nil {
		return Resolved{}, err
	}
	k, err := inspectHead(head, size)
	if err != nil {
		return Resolved{}, err
	}
	return Resolved{
		URL: w.source, Size: size, Format: k.format, Packed: k.packed, VirtualSize: k.virtual,
		HashAlgo: sum.algo, HashValue: sum.value,
	}, nil
}

// probe fetches the first bytes of the file at a URL, and its size, -1 if the
// server does not tell. A range request tells more than HEAD, and servers that
// sign URLs for one method only allow it.
func (s *Store) probe(ctx context.Context, address string) (head []byte, size int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("ask for image: %w", err)
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=0-%d", headSize-1))
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, 0, fmt.Errorf("ask for image: %w", withoutURL(err))
	}
	defer resp.Body.Close()
	if size, err = sizeOf(resp); err != nil {
		return nil, 0, fmt.Errorf("ask for image: %w", err)
	}
	head, err = io.ReadAll(io.LimitReader(resp.Body, headSize))
	if err != nil && len(head) == 0 {
		return nil, 0, fmt.Errorf("ask for image: %w", err)
	}
	return head, size, nil
}
