package redfish

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"bessemer/bmc"
)

const maxErrorText = 1 << 10

// A statusError is an answer that says no.
type statusError struct {
	method, path string
	status       int
	text         string // what the controller says, at most 1 KiB of it
	raw          string // where signs are looked for
	retryAfter   time.Duration
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("%s %s: %d %s", e.method, e.path, e.status, http.StatusText(e.status))
	if e.text != "" {
		s += ": " + e.text
	}
	return s
}

// newStatusError makes the error of an answer, without the secrets that a
// controller may send back in it.
func newStatusError(method, path string, x *exchange, secrets []string) *statusError {
	raw := bmc.ScrubText(string(x.body), secrets...)
	e := &statusError{method: method, path: path, status: x.status, raw: raw, text: errorText(raw)}
	if s := x.header.Get("Retry-After"); s != "" {
		e.retryAfter = retryAfter(s)
	}
	return e
}

// errorText finds the words in an error answer: Redfish's messages, or the
// first of whatever else it is.
func errorText(raw string) string {
	var doc struct {
		Error struct {
			Code     text
			Message  text
			Extended loose[[]struct{ MessageId, Message, Resolution text }] `json:"@Message.ExtendedInfo"`
		}
	}
	var parts []string
	if json.Unmarshal([]byte(raw), &doc) == nil {
		for _, m := range doc.Error.Extended.v {
			parts = append(parts, strings.TrimSpace(string(m.Message+" "+m.Resolution)))
			if m.Message == "" {
				parts = append(parts, string(m.MessageId))
			}
		}
		if len(parts) == 0 {
			parts = append(parts, string(doc.Error.Message), string(doc.Error.Code))
		}
	}
	s := strings.TrimSpace(strings.Join(parts, " "))
	if s == "" {
		s = raw
	}
	return oneLine(s)
}

// oneLine makes foreign text fit for a message of ours.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s[:min(len(s), 4*maxErrorText)], " "))), " ")
	if len(s) > maxErrorText {
		s = strings.ToValidUTF8(s[:maxErrorText], "") + "..."
	}
	return s
}

// retryAfter reads a Retry-After header: seconds or a date.
func retryAfter(s string) time.Duration {
	if n, err := strconv.Atoi(strings.TrimSpace(s)); err == nil {
		return max(0, time.Duration(min(n, 3600))*time.Second)
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(0, time.Until(t))
	}
	return 0
}

// status returns the HTTP status that err is about, or 0.
func status(err error) int {
	var e *statusError
	if errors.As(err, &e) {
		return e.status
	}
	return 0
}
