package api

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Values as Ironic writes them: null for what is not set, {} for an empty
// object, times with microseconds and +00:00.

func orNull[S ~string](s S) any {
	if s == "" {
		return nil
	}
	return string(s)
}

func orEmpty[V any](m map[string]V) any {
	if m == nil {
		return struct{}{}
	}
	return m
}

func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000-07:00")
}

// parseBool reads a boolean as clients send it: a JSON boolean or one of the
// words that Ironic takes. null is false.
func parseBool(name string, v any) (bool, error) {
	switch v := v.(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	case string:
		switch strings.ToLower(strings.TrimSpace(v)) {
		case "true", "t", "yes", "y", "on", "1":
			return true, nil
		case "false", "f", "no", "n", "off", "0":
			return false, nil
		}
	}
	return false, invalid("Invalid value %s for %s: it must be a boolean", shown(v), name)
}

func parseUint(name, s string) (int, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, invalid("Invalid value %s for %s: it must be an integer", shown(s), name)
	}
	return int(n), nil
}

// shown is a client's value, fit for an error text: short and on one line.
func shown(v any) string {
	if v == nil {
		return "null"
	}
	s := fmt.Sprintf("%q", fmt.Sprint(v))
	if len(s) > 80 {
		s = s[:76] + `..."`
	}
	return s
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	_, err := uuid.Parse(s)
	return err == nil
}

// parseUUID returns the canonical form of a UUID.
func parseUUID(name, s string) (string, error) {
	if !isUUID(s) {
		return "", invalid("Expected UUID for %s: %s", name, shown(s))
	}
	return strings.ToLower(s), nil
}

// parseMAC returns the canonical form of an Ethernet address.
func parseMAC(name, s string) (string, error) {
	m, err := net.ParseMAC(s)
	if err != nil || len(m) != 6 || len(s) != 17 {
		return "", invalid("Expected valid MAC address for %s: %s", name, shown(s))
	}
	return m.String(), nil
}

var (
	logicalName  = regexp.MustCompile(`^[A-Za-z0-9._~-]{1,255}$`)
	hostName     = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?$`)
	traitName    = regexp.MustCompile(`^(CUSTOM|HW|COMPUTE|MISC|STORAGE|OWNER)_[A-Z0-9_]+$`)
	controlChars = regexp.MustCompile(`[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]`)
)

// isName says whether s may name a resource at the given version; no name is
// a UUID.
func isName(s string, v version) bool {
	if isUUID(s) {
		return false
	}
	if v < 10 {
		return hostName.MatchString(s)
	}
	return logicalName.MatchString(s)
}
