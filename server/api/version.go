package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// A version is a microversion 1.N of Ironic's API, by its N.
type version int

const (
	minVersion version = 1
	maxVersion version = 82
)

// Headers of the microversion mechanism.
const (
	versionHeader    = "X-OpenStack-Ironic-API-Version"
	minVersionHeader = "X-OpenStack-Ironic-API-Minimum-Version"
	maxVersionHeader = "X-OpenStack-Ironic-API-Maximum-Version"
	commonHeader     = "OpenStack-API-Version" // "baremetal 1.N", among other services'
)

func (v version) String() string { return fmt.Sprintf("1.%d", int(v)) }

// negotiate sets the version headers of an answer and returns the version
// that the request asks for: 1.1 when it does not say.
func negotiate(w http.ResponseWriter, r *http.Request) (version, error) {
	w.Header().Set(minVersionHeader, minVersion.String())
	w.Header().Set(maxVersionHeader, maxVersion.String())
	v, err := parseVersion(askedVersion(r))
	if err == nil {
		w.Header().Set(versionHeader, v.String())
	}
	return v, err
}

// askedVersion finds the version in the service's own header or, without it,
// in the one that all services share.
func askedVersion(r *http.Request) string {
	if s := r.Header.Get(versionHeader); s != "" {
		return s
	}
	for _, line := range r.Header.Values(commonHeader) {
		for one := range strings.SplitSeq(line, ",") {
			service, v, ok := strings.Cut(strings.TrimSpace(one), " ")
			if ok && strings.EqualFold(service, "baremetal") {
				return strings.TrimSpace(v)
			}
		}
	}
	return ""
}

func parseVersion(s string) (version, error) {
	if s == "" {
		return minVersion, nil
	}
	if strings.EqualFold(s, "latest") {
		return maxVersion, nil
	}
	major, minor, ok := strings.Cut(s, ".")
	m, err1 := strconv.ParseUint(major, 10, 16)
	n, err2 := strconv.ParseUint(minor, 10, 16)
	if !ok || err1 != nil || err2 != nil {
		return 0, abort(http.StatusNotAcceptable, "Invalid value for %s header: it must be 1.N or latest", versionHeader)
	}
	if m != 1 || version(n) < minVersion || version(n) > maxVersion {
		return 0, abort(http.StatusNotAcceptable,
			"Version %d.%d was requested but is not supported by this service. The supported version range is: [%s, %s].", m, n, minVersion, maxVersion)
	}
	return version(n), nil
}
