package firmware

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// This file is the language of iPXE's scripts: lines, labels, and commands
// joined by && || and ; as iPXE's own shell reads them. There is no quoting.

// A scriptLine is one line: its label, if it has one, and its words.
type scriptLine struct {
	label string
	words []string
}

const (
	maxSteps = 20000 // lines that one boot may run
	maxDepth = 16    // scripts within scripts
)

// parse reads a script. A line that ends in a backslash goes on in the next.
func parse(text string) ([]scriptLine, error) {
	if !isScript(text) {
		return nil, errors.New("not a script: exec format error")
	}
	if len(text) > maxScript {
		return nil, fmt.Errorf("script has %d bytes, at most %d are taken", len(text), maxScript)
	}
	var lines []scriptLine
	joined := ""
	for raw := range strings.SplitSeq(text, "\n") {
		raw = strings.TrimSuffix(raw, "\r")
		if cut, more := strings.CutSuffix(raw, "\\"); more {
			joined += cut
			continue
		}
		l := scriptLine{words: strings.Fields(joined + raw)}
		joined = ""
		if len(l.words) > 0 && l.words[0][0] == ':' {
			l.label, l.words = l.words[0][1:], l.words[1:]
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// isScript tells a script by its first bytes.
func isScript(text string) bool {
	return len(text) > 6 && (text[:6] == "#!ipxe" || text[:6] == "#!gpxe") && strings.ContainsRune(" \t\r\n", rune(text[6]))
}

// What ends more than a command.
type (
	// jumping goes on behind a label.
	jumping struct{ to int }
	// exiting ends the script with a status.
	exiting struct{ status int }
	// replacing ends the script and runs another in its place.
	replacing struct{ text string }
	// leaving ends iPXE.
	leaving struct {
		action Action
		err    error
	}
)

// Error implements error.
func (j *jumping) Error() string { return "goto" }

// Error implements error.
func (e *exiting) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// Error implements error.
func (r *replacing) Error() string { return "replaced" }

// Error implements error.
func (l *leaving) Error() string { return "iPXE ends" }

// Unwrap gives what went wrong.
func (l *leaving) Unwrap() error { return l.err }

var errEndless = errors.New("the script does not come to an end")

// run runs a script and what replaces it. Its error is the status of the last
// command, or that of exit.
func (s *shell) run(ctx context.Context, text string) error {
	if s.depth++; s.depth > maxDepth {
		return &leaving{err: errEndless}
	}
	defer func() { s.depth-- }()
	for {
		lines, err := parse(text)
		if err != nil {
			return err
		}
		err = s.lines(ctx, lines)
		var r *replacing
		if !errors.As(err, &r) {
			return err
		}
		text = r.text
	}
}

// lines runs lines until one fails that has no || behind it.
func (s *shell) lines(ctx context.Context, lines []scriptLine) error {
	outer := s.current
	s.current = lines
	defer func() { s.current = outer }()
	for i := 0; i < len(lines); i++ {
		if s.steps++; s.steps > maxSteps {
			return &leaving{err: errEndless}
		}
		if err := ctx.Err(); err != nil {
			return &leaving{err: err}
		}
		err := s.line(ctx, lines[i].words)
		var j *jumping
		var e *exiting
		switch {
		case errors.As(err, &j):
			i = j.to - 1 // the line of the label itself is run too
		case errors.As(err, &e) && e.status == 0:
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// line runs the commands of a line. One that is passed over leaves the status
// as it was.
func (s *shell) line(ctx context.Context, words []string) (err error) {
	for due := true; ; {
		n, op := terminator(words)
		if due {
			if err = s.command(ctx, words[:n]); final(err) {
				return err
			}
		}
		switch op {
		case "":
			return err
		case "&&":
			due = err == nil
		case "||":
			due = err != nil
		default:
			due = true
		}
		words = words[n+1:]
	}
}

// terminator finds the end of the first command: what is between it and the
// next, or "" at the end or at a comment.
func terminator(words []string) (n int, op string) {
	for i, w := range words {
		switch {
		case w[0] == '#':
			return i, ""
		case w == "&&", w == "||", w == ";":
			return i, w
		}
	}
	return len(words), ""
}

// final reports whether an error ends more than its command.
func final(err error) bool {
	switch err.(type) {
	case *jumping, *exiting, *replacing, *leaving:
		return true
	}
	return false
}

// command expands and runs one command; an empty one succeeds.
func (s *shell) command(ctx context.Context, words []string) error {
	if len(words) == 0 {
		return nil
	}
	args := make([]string, len(words))
	for i, w := range words {
		args[i] = s.expand(w)
	}
	run := find(args[0])
	if run == nil || s.old && newer[args[0]] {
		s.on.say("%s: command not found", args[0])
		return fmt.Errorf("%s: command not found", args[0])
	}
	err := run(s, ctx, args[1:])
	if err != nil && !final(err) && !quiet[args[0]] {
		s.failed = fmt.Errorf("%s: %w", args[0], err)
		s.on.say("%s", s.failed)
	}
	return err
}

// quiet are the commands whose failure is an answer.
var quiet = map[string]bool{"iseq": true, "isset": true, "prompt": true, "chain": true, "autoboot": true}
