package bmc

import "strings"

const scrubbed = "******"

// Scrub returns err with every secret in its text replaced. It still wraps
// what err wraps. Secrets shorter than four bytes are left: replacing them
// would garble the text without hiding anything.
func Scrub(err error, secrets ...string) error {
	if err == nil {
		return nil
	}
	text := ScrubText(err.Error(), secrets...)
	if text == err.Error() {
		return err
	}
	return &scrubbedError{text, err}
}

// ScrubText returns s with every secret replaced, as [Scrub] does.
func ScrubText(s string, secrets ...string) string {
	for _, secret := range secrets {
		if len(secret) >= 4 {
			s = strings.ReplaceAll(s, secret, scrubbed)
		}
	}
	return s
}

type scrubbedError struct {
	text string
	err  error
}

func (e *scrubbedError) Error() string { return e.text }
func (e *scrubbedError) Unwrap() error { return e.err }
