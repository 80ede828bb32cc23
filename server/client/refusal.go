package client

import (
	"encoding/json"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// refusal reads Ironic's doubly encoded error, its plain forms, and ours.
func refusal(status int, raw []byte) *Error {
	e := decodeRefusal(status, raw)
	e.Message = clause(e.Message)
	return e
}

func decodeRefusal(status int, raw []byte) *Error {
	e := &Error{Status: status, Message: strings.TrimSpace(string(raw))}
	var body struct {
		ErrorMessage json.RawMessage `json:"error_message"`
		Error        struct{ Message, Hint string }
	}
	if json.Unmarshal(raw, &body) != nil {
		if e.Message == "" {
			e.Message = strings.ToLower(http.StatusText(status))
		}
		return e
	}
	if body.Error.Message != "" {
		e.Message, e.Hint = body.Error.Message, body.Error.Hint
		return e
	}
	inner := []byte(body.ErrorMessage)
	var text string
	if json.Unmarshal(inner, &text) == nil {
		inner = []byte(text)
		e.Message = text
	}
	var fault struct{ Faultstring, Description, Message, Title string }
	if json.Unmarshal(inner, &fault) == nil {
		for _, s := range []string{fault.Faultstring, fault.Description, fault.Message, fault.Title} {
			if s != "" {
				e.Message = s
				break
			}
		}
	}
	return e
}

// clause is a sentence as part of another: without the capital, unless it
// begins an abbreviation or a name in capitals, and without the full stop.
func clause(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	second, _ := utf8.DecodeRuneInString(s[n:])
	if unicode.IsUpper(first) && (unicode.IsLower(second) || second == ' ') {
		s = string(unicode.ToLower(first)) + s[n:]
	}
	return strings.TrimSuffix(s, ".")
}
