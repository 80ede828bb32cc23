package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// A display is where the demo shows itself: on a terminal its last lines are
// drawn over, elsewhere there are only lines that stay.
type display struct {
	w     io.Writer
	look  look
	size  func() (width, height int) // of the terminal; nil when there is none
	drawn int                        // lines that the next drawing replaces
}

func newDisplay(w io.Writer) *display {
	s := &display{w: w}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return s
	}
	s.look = os.Getenv("NO_COLOR") == ""
	s.size = func() (int, int) {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
		return 80, 24
	}
	return s
}

// live reports whether lines can be drawn over.
func (s *display) live() bool { return s.size != nil }

// say writes a line that stays.
func (s *display) say(format string, args ...any) {
	s.draw(nil)
	fmt.Fprintf(s.w, format+"\n", args...)
}

// over writes a line that the next one replaces; without a terminal it writes
// nothing.
func (s *display) over(format string, args ...any) {
	if s.live() {
		s.draw([]string{fmt.Sprintf(format, args...)})
	}
}

// draw puts lines in the place of those that were drawn last.
func (s *display) draw(lines []string) {
	if !s.live() || s.drawn == 0 && len(lines) == 0 {
		return
	}
	var b strings.Builder
	b.WriteString("\x1b[?25l") // no cursor
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	b.WriteString("\r\x1b[J") // all below is new
	for _, l := range lines {
		b.WriteString(l + "\n")
	}
	s.drawn = len(lines)
	_, _ = io.WriteString(s.w, b.String())
}

// keep lets what is drawn stay.
func (s *display) keep() { s.drawn = 0 }

// leave gives the terminal back.
func (s *display) leave() {
	if s.live() {
		fmt.Fprint(s.w, "\x1b[?25h")
	}
}
