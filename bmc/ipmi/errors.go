package ipmi

import (
	"errors"
	"fmt"

	"bessemer/bmc"
)

// A completionError is a command that the controller refused (section 5.2).
type completionError struct {
	command string
	code    byte
}

func (e *completionError) Error() string {
	return fmt.Sprintf("%s: the controller answers 0x%02x, %s", e.command, e.code, completionText(e.code))
}

// Completion codes that the driver acts upon.
const (
	codeBusy          = 0xc0
	codeTimeout       = 0xc3
	codeNoPrivilege   = 0xd4
	codeNotInState    = 0xd5
	codeNoParameter   = 0x80 // of boot options
	codeInProgress    = 0x81 // of boot options
	codeUnknown       = 0xc1
	codeOutOfResource = 0xc4
)

func completionText(code byte) string {
	switch code {
	case codeBusy:
		return "busy"
	case codeUnknown:
		return "unknown command"
	case codeTimeout:
		return "timeout while processing"
	case codeOutOfResource:
		return "out of space"
	case 0xc7:
		return "wrong length of request"
	case 0xc9:
		return "parameter out of range"
	case 0xcc:
		return "invalid field in request"
	case codeNoPrivilege:
		return "insufficient privilege; raise the user's privilege on the controller, or set ipmi_priv_level"
	case codeNotInState:
		return "not possible in the present state"
	case codeNoParameter:
		return "parameter not supported, or specific to the command"
	case codeInProgress:
		return "another one is setting it, or specific to the command"
	}
	return "an error"
}

// code returns the completion code that err is about, or 0.
func code(err error) byte {
	var e *completionError
	if errors.As(err, &e) {
		return e.code
	}
	return 0
}

// A setupError is a session that the controller refused (table 13-15).
type setupError struct {
	step   string
	status byte
}

func (e *setupError) Error() string {
	return fmt.Sprintf("%s: the controller answers 0x%02x, %s", e.step, e.status, setupText(e.status))
}

func setupText(status byte) string {
	switch status {
	case 0x01, 0x0b:
		return "no room for another session"
	case 0x02, 0x08:
		return "session unknown"
	case 0x04, 0x05, 0x06, 0x07, 0x10, 0x11:
		return "cipher suite not offered"
	case 0x09, 0x0a:
		return "the user has not this privilege; set ipmi_priv_level"
	case 0x0d:
		return "user name unknown"
	case 0x0f:
		return "password refused"
	case 0x12:
		return "a parameter is not understood"
	}
	return "an error"
}

// Unwrap tells refused logins from other refusals.
func (e *setupError) Unwrap() error {
	if e.status == 0x0d || e.status == 0x0f {
		return bmc.ErrCredentials
	}
	return nil
}

// isFull reports whether the controller had no room for a session.
func isFull(err error) bool {
	var e *setupError
	return errors.As(err, &e) && (e.status == 0x01 || e.status == 0x0b)
}

// isSuite reports whether another cipher suite may be what helps. Some
// controllers call a suite that they lack an invalid role (I-05).
func isSuite(err error) bool {
	var e *setupError
	if !errors.As(err, &e) {
		return false
	}
	switch e.status {
	case 0x04, 0x05, 0x06, 0x07, 0x09, 0x10, 0x11, 0x12:
		return true
	}
	return false
}

// isDenied reports whether the user has not the privilege that was asked for.
func isDenied(err error) bool {
	var e *setupError
	if errors.As(err, &e) {
		return e.status == 0x09 || e.status == 0x0a
	}
	var refused *completionError
	return errors.As(err, &refused) && refused.command == cmdSetPrivilege.name && (refused.code == 0x81 || refused.code == codeNoPrivilege)
}
