package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/sys/unix"

	"bessemer/bmc"
	"bessemer/pxe/images"
	"bessemer/server/auth"
	"bessemer/server/conductor"
	"bessemer/store"
)

// A fault is a refusal with its HTTP status. abort marks those that Ironic's
// framework makes, which look different on the wire from those that its
// controllers make.
type fault struct {
	status int
	text   string
	hint   string
	abort  bool
}

func (f *fault) Error() string { return f.text }

func refuse(status int, format string, args ...any) error {
	return &fault{status: status, text: fmt.Sprintf(format, args...)}
}

func abort(status int, format string, args ...any) error {
	return &fault{status: status, text: fmt.Sprintf(format, args...), abort: true}
}

// invalid refuses a request for what is in it.
func invalid(format string, args ...any) error {
	return refuse(http.StatusBadRequest, format, args...)
}

// notAcceptable refuses what a later version than the request's allows.
func notAcceptable(what string, since version) error {
	return refuse(http.StatusNotAcceptable, "Request not acceptable: %s needs API version %s or newer", what, since)
}

// statuses is the one table from the errors of other packages to HTTP codes.
var statuses = []struct {
	err    error
	status int
}{
	{conductor.ErrInvalid, http.StatusBadRequest},
	{conductor.ErrState, http.StatusBadRequest},
	{conductor.ErrForbidden, http.StatusForbidden},
	{conductor.ErrNotFound, http.StatusNotFound},
	{conductor.ErrLocked, http.StatusConflict},
	{conductor.ErrBusy, http.StatusServiceUnavailable},
	{conductor.ErrBadAgent, http.StatusUnauthorized},
	{auth.ErrDenied, http.StatusUnauthorized},
	{auth.ErrSlowDown, http.StatusTooManyRequests},
	{auth.ErrInvalid, http.StatusBadRequest},
	{auth.ErrLastAdmin, http.StatusConflict},
	{bmc.ErrUnsupported, http.StatusBadRequest},
	{bmc.ErrCredentials, http.StatusBadRequest},
	{bmc.ErrUnreachable, http.StatusBadRequest},
	{bmc.ErrTLS, http.StatusBadRequest},
	{images.ErrInvalid, http.StatusBadRequest},
	{images.ErrFormat, http.StatusBadRequest},
	{images.ErrNoSpace, http.StatusInsufficientStorage},
	{images.ErrInUse, http.StatusConflict},
	{store.ErrNoSpace, http.StatusInsufficientStorage},
	{store.ErrDisk, http.StatusServiceUnavailable},
	{store.ErrNotFound, http.StatusNotFound},
	{store.ErrConflict, http.StatusConflict},
}

// hostFaults is the same for what this host refuses, with what to do about it.
var hostFaults = []struct {
	err    error
	status int
	hint   string
}{
	{unix.ENOSPC, http.StatusInsufficientStorage, "make room in the data directory"},
	{unix.EDQUOT, http.StatusInsufficientStorage, "make room in the data directory, or raise its quota"},
	{unix.EFBIG, http.StatusInsufficientStorage, "raise the limit on the size of files (LimitFSIZE= of the service)"},
	{unix.EMFILE, http.StatusServiceUnavailable, "raise the limit on open files (LimitNOFILE= of the service), or close connections"},
	{unix.ENFILE, http.StatusServiceUnavailable, "raise this host's limit on open files (sysctl fs.file-max)"},
	{unix.EIO, http.StatusInternalServerError, "look at the kernel's log and the disk of the data directory"},
	{unix.EROFS, http.StatusInternalServerError, "look at the kernel's log and the disk of the data directory"},
}

// asFault turns any error into a fault. What is in no table is a fault of
// ours, of which a client learns the request id and nothing else.
func asFault(err error, requestID string) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return &fault{status: s.status, text: sentence(err, s.err)}
		}
	}
	for _, h := range hostFaults {
		if errors.Is(err, h.err) {
			return &fault{status: h.status, text: sentence(err, h.err) + "; " + h.hint, hint: h.hint}
		}
	}
	return &fault{
		status: http.StatusInternalServerError,
		text:   "Internal error; the appliance's log has it as " + requestID,
		hint:   "look for the request id in the log",
	}
}

// sentence is an error's text as a client reads it: one line, capital first,
// without the words of the kind of error, which the status says.
func sentence(err, kind error) string {
	s := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ") // errors.Join
	s = strings.ReplaceAll(s, kind.Error()+": ", "")
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// writeFault answers with a fault in Ironic's form: JSON within JSON.
func (c *call) writeFault(f *fault) {
	if f.status == http.StatusServiceUnavailable || f.status == http.StatusTooManyRequests {
		c.w.Header().Set("Retry-After", "2")
	}
	if c.own {
		c.writeOwnFault(f)
		return
	}
	var inner any
	if f.abort {
		inner = struct {
			Code        int    `json:"code"`
			Title       string `json:"title"`
			Description string `json:"description"`
		}{f.status, http.StatusText(f.status), f.text}
	} else {
		side := "Client"
		if f.status >= 500 {
			side = "Server"
		}
		inner = struct {
			Code   string  `json:"faultcode"`
			String string  `json:"faultstring"`
			Debug  *string `json:"debuginfo"`
		}{side, f.text, nil}
	}
	text, _ := json.Marshal(inner)
	c.json(f.status, map[string]string{"error_message": string(text)})
}

// writeOwnFault answers in the plain form of our own API.
func (c *call) writeOwnFault(f *fault) {
	type body struct {
		Message string `json:"message"`
		Hint    string `json:"hint,omitempty"`
		Code    int    `json:"code"`
	}
	c.json(f.status, map[string]body{"error": {f.text, f.hint, f.status}})
}
