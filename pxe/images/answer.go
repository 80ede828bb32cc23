package images

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// sizeOf reads the size of a whole file from the answer to a request for its
// beginning; -1 is unknown.
func sizeOf(resp *http.Response) (int64, error) {
	switch resp.StatusCode {
	case http.StatusOK:
		return resp.ContentLength, nil
	case http.StatusPartialContent:
		return rangeTotal(resp.Header.Get("Content-Range"))
	case http.StatusRequestedRangeNotSatisfiable:
		return 0, fmt.Errorf("the file is empty: %w", ErrFormat)
	}
	return 0, fmt.Errorf("the server answered %s: check the URL", resp.Status)
}

// rangeTotal reads the size from "bytes 0-9/100" (RFC 9110 14.4).
func rangeTotal(s string) (int64, error) {
	unit, rest, _ := strings.Cut(s, " ")
	span, total, ok := strings.Cut(rest, "/")
	if !strings.EqualFold(unit, "bytes") || !ok || !strings.HasPrefix(span, "0-") {
		return 0, fmt.Errorf("the server answered with Content-Range %q, which is not for what was asked", s)
	}
	if total == "*" {
		return -1, nil
	}
	n, err := strconv.ParseInt(total, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("the server answered with Content-Range %q, which makes no sense", s)
	}
	return n, nil
}

// withoutURL takes the URL, whose query may sign it, out of an error.
func withoutURL(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}
