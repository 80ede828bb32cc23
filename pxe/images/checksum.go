package images

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"bessemer/agent/fetch"
)

// maxChecksums is the largest file of checksums that is read, bytes.
const maxChecksums = 1 << 20

// A checksum is an algorithm, sha256 or sha512, and a value in lower-case hex.
type checksum struct{ algo, value string }

// algoByLen is the algorithm of a checksum by its number of hex digits.
var algoByLen = map[int]string{32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}

const useSHA = "give the file's SHA-256 or SHA-512 instead (sha256sum FILE)"

// parseChecksum reads a checksum in hex; what is where it stands.
func parseChecksum(what, text string) (checksum, error) {
	value := strings.ToLower(strings.TrimSpace(text))
	algo, rest, ok := strings.Cut(value, ":")
	if ok {
		return newChecksum(what, algo, rest)
	}
	return newChecksum(what, algoByLen[len(value)], value)
}

// newChecksum checks an algorithm's name and a value.
func newChecksum(what, algo, value string) (checksum, error) {
	c := checksum{strings.ToLower(strings.TrimSpace(algo)), strings.ToLower(strings.TrimSpace(value))}
	switch c.algo {
	case "md5", "sha1":
		return c, fmt.Errorf("%s is %w: %s no longer shows that a file is genuine: %s", what, ErrInvalid, c.algo, useSHA)
	case "sha256", "sha512":
	default:
		return c, fmt.Errorf("%s is %w: it is neither a SHA-256 nor a SHA-512 in hex, nor a URL: %s", what, ErrInvalid, useSHA)
	}
	if _, err := hex.DecodeString(c.value); err != nil || algoByLen[len(c.value)] != c.algo {
		return c, fmt.Errorf("%s is %w: it is no %s in hex", what, ErrInvalid, c.algo)
	}
	return c, nil
}

// fetchChecksum gets a file of checksums and picks that of the image.
func (s *Store) fetchChecksum(ctx context.Context, address, image string) (checksum, error) {
	if _, err := s.policy.Check(address); err != nil {
		return checksum{}, fmt.Errorf("image_checksum is %w: %w", ErrInvalid, err)
	}
	text, err := fetch.ReadAll(ctx, s.client, address, fetch.Limits{MaxSize: maxChecksums})
	if err != nil {
		return checksum{}, fmt.Errorf("fetch checksums: %w", err)
	}
	c, err := pickChecksum(text, fileName(image))
	if err != nil {
		return checksum{}, fmt.Errorf("find checksum in %s: %w", withoutQuery(address), err)
	}
	return c, nil
}

// fileName is the last part of a URL's path.
func fileName(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return path.Base(u.Path)
}

var (
	sumLine = regexp.MustCompile(`^([0-9A-Fa-f]{32,128})(?:[ \t]+\*?(.*))?$`)
	bsdLine = regexp.MustCompile(`^([A-Za-z0-9]+) ?\((.*)\) ?= ?([0-9A-Fa-f]{32,128})$`)
)

// A sumEntry is a line of a file of checksums.
type sumEntry struct{ name, algo, value string }

// pickChecksum finds the checksum of a file among lines as the sum tools write
// them ("HASH  name", "HASH *name"), as BSD's do ("SHA256 (name) = HASH"), or
// a hash alone. Signatures and comments around them are passed over.
func pickChecksum(text []byte, name string) (checksum, error) {
	var ours []sumEntry
	all := sumEntries(text)
	for _, e := range all {
		if path.Base(e.name) == name && e.name != "" {
			ours = append(ours, e)
		}
	}
	if len(ours) == 0 && len(all) == 1 && all[0].name == "" {
		ours = all
	}
	if len(ours) == 0 {
		return checksum{}, fmt.Errorf("none of its %d lines is for %q: %w: give the checksum itself", len(all), name, ErrInvalid)
	}
	return strongest(ours, name)
}

func sumEntries(text []byte) []sumEntry {
	var all []sumEntry
	for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
		line := strings.TrimSpace(sc.Text())
		if m := bsdLine.FindStringSubmatch(line); m != nil {
			all = append(all, sumEntry{m[2], strings.ToLower(m[1]), strings.ToLower(m[3])})
		} else if m := sumLine.FindStringSubmatch(line); m != nil && algoByLen[len(m[1])] != "" {
			all = append(all, sumEntry{m[2], algoByLen[len(m[1])], strings.ToLower(m[1])})
		}
	}
	return all
}

// strongest picks among the checksums of one file. Two that disagree show that
// the name is not enough to tell files apart.
func strongest(entries []sumEntry, name string) (checksum, error) {
	byAlgo := map[string]string{}
	for _, e := range entries {
		if have := byAlgo[e.algo]; have != "" && have != e.value {
			return checksum{}, fmt.Errorf("it has two different lines for %q: %w: give the checksum itself", name, ErrInvalid)
		}
		byAlgo[e.algo] = e.value
	}
	for _, algo := range []string{"sha512", "sha256"} {
		if v := byAlgo[algo]; v != "" {
			return newChecksum("the line for "+name, algo, v)
		}
	}
	return newChecksum("the line for "+name, entries[0].algo, entries[0].value)
}

// withoutQuery is a URL as errors may show it: its query may sign it.
func withoutQuery(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the URL"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}
