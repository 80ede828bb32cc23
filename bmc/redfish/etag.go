package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// patch changes a resource. Controllers disagree about the If-Match header:
// some insist on it, some compare it with the value in the body
// instead of the header's, or without quotes, some refuse every value
// . The forms are tried in that order, each with a fresh value, and the
// one that worked is tried first the next time. No other error is met with
// another try here.
//
// known, if not nil, are the tags of the resource as it was read just now, and
// save the first try's own read.
func (c *conn) patch(ctx context.Context, path string, payload any, known *tags) error {
	var tried []string
	var first error
	for i := 0; i < len(etagForms); i++ {
		form, given := (c.etags+i)%len(etagForms), known != nil
		if !given {
			x, err := c.do(ctx, http.MethodGet, path, nil, nil)
			if err != nil {
				return err
			}
			known = tagsOf(x)
		}
		value := etagForms[form](known.header, known.body)
		known = nil
		if slices.Contains(tried, value) {
			continue
		}
		tried = append(tried, value)
		var header map[string]string
		if value != "" {
			header = map[string]string{"If-Match": value}
		}
		_, err := c.do(ctx, http.MethodPatch, path, payload, header)
		if err == nil {
			c.etags = form
			return nil
		}
		if first == nil {
			first = err
		}
		if !isMismatch(err) {
			return err
		}
		if given {
			i-- // the resource may have changed since
		}
	}
	return first
}

// etagForms are the ways to state which version of a resource one means, from
// the values in the answer's header and body.
var etagForms = []func(header, body string) string{
	func(header, _ string) string { return withoutSuffix(header) },
	func(_, body string) string { return body },
	func(header, body string) string { return unquoted(withoutSuffix(header), body) },
	func(header, body string) string {
		if header+body == "" {
			return "*" // insists, but tells no value
		}
		return ""
	},
	func(string, string) string { return "" },
}

// tags are the values of a resource's version, as they stand in the answer's
// header and body.
type tags struct{ header, body string }

func tagsOf(x *exchange) *tags {
	var doc struct {
		ETag text `json:"@odata.etag"`
	}
	_ = json.Unmarshal(x.body, &doc) // the header's value remains
	return &tags{x.header.Get("ETag"), string(doc.ETag)}
}

// withoutSuffix removes what a web server in front adds to a tag when it
// would compress the resource.
func withoutSuffix(tag string) string {
	return strings.Replace(tag, `-gzip"`, `"`, 1)
}

// unquoted returns the first of the tags that is not empty as bare text.
func unquoted(tags ...string) string {
	for _, tag := range tags {
		if s := strings.Trim(strings.TrimPrefix(tag, "W/"), `"`); s != "" {
			return s
		}
	}
	return ""
}

// isMismatch reports whether a controller refused a request for its If-Match
// header, or for having none.
func isMismatch(err error) bool {
	var e *statusError
	if !errors.As(err, &e) {
		return false
	}
	switch e.status {
	case http.StatusPreconditionFailed, http.StatusPreconditionRequired, http.StatusTooManyRequests:
		return true
	}
	return e.status >= 400 && e.status < 500 && e.says(needsETag)
}
