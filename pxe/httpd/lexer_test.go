package httpd

import (
	"fmt"
	"strings"
)

// A command is one command of a script, as iPXE's shell sees it: its words
// after expansion has been found, with the operator before it.
type command struct {
	op    string // "", "&&", "||" or ";"
	words []string
}

// lex reads a script as iPXE does: lines, words between blanks, quotes and
// backslashes, # comments, the operators && || and ; as words of their own, and
// ${...} anywhere. It is written for the tests, from iPXE's documentation, and
// knows nothing of how scripts are rendered.
func lex(script string) ([]command, error) {
	if !strings.HasPrefix(script, "#!ipxe\n") {
		return nil, fmt.Errorf("no #!ipxe")
	}
	var all []command
	for n, line := range strings.Split(script, "\n")[1:] {
		for i := range len(line) {
			if line[i] < ' ' || line[i] > '~' {
				return nil, fmt.Errorf("line %d: character %q", n+2, line[i])
			}
		}
		cs, err := lexLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+2, err)
		}
		all = append(all, cs...)
	}
	return all, nil
}

func lexLine(line string) ([]command, error) {
	var out []command
	cur := command{}
	flush := func(op string) {
		if len(cur.words) > 0 {
			out = append(out, cur)
		}
		cur = command{op: op}
	}
	for line = strings.TrimLeft(line, " "); line != ""; line = strings.TrimLeft(line, " ") {
		if line[0] == '#' {
			break
		}
		word, rest, err := lexWord(line)
		if err != nil {
			return nil, err
		}
		line = rest
		switch word {
		case "&&", "||", ";":
			flush(word)
		default:
			cur.words = append(cur.words, word)
		}
	}
	flush("")
	return out, nil
}

// lexWord takes one word; expansions stay in it as they are written.
func lexWord(line string) (word, rest string, err error) {
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '$' && strings.HasPrefix(line[i:], "${"):
			end := strings.IndexByte(line[i:], '}')
			if end < 0 {
				return "", "", fmt.Errorf("expansion without end")
			}
			b.WriteString(line[i : i+end+1])
			i += end
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			b.WriteByte(c)
		case c == '"' || c == '\'':
			quote = c
		case c == '\\' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
		case c == ' ':
			return b.String(), line[i:], nil
		default:
			b.WriteByte(c)
		}
	}
	if quote != 0 {
		return "", "", fmt.Errorf("quote without end")
	}
	return b.String(), "", nil
}

// core are the commands that a script may use: iPXE of any age has them
// (quirk D-12). Labels begin with a colon.
var core = map[string]bool{
	"echo": true, "set": true, "imgfree": true, "kernel": true, "initrd": true, "boot": true, "goto": true,
	"iseq": true, "sleep": true, "reboot": true, "chain": true, "sanboot": true, "exit": true,
}

// check finds what is wrong with a script: commands that are not core ones,
// jumps to nowhere, expansions of anything but what we use.
func check(script string) error {
	cs, err := lex(script)
	if err != nil {
		return err
	}
	labels := map[string]bool{}
	for _, c := range cs {
		if strings.HasPrefix(c.words[0], ":") {
			labels[c.words[0][1:]] = true
		}
	}
	for _, c := range cs {
		switch name := c.words[0]; {
		case strings.HasPrefix(name, ":"):
		case !core[name]:
			return fmt.Errorf("command %q", name)
		case name == "goto" && !labels[c.words[1]]:
			return fmt.Errorf("goto %s leads nowhere", c.words[1])
		}
		for _, w := range c.words {
			for _, e := range strings.Split(w, "${")[1:] {
				if name, _, _ := strings.Cut(e, "}"); name != "try" && name != "platform" && name != "buildarch" {
					return fmt.Errorf("expansion of %q", name)
				}
			}
		}
	}
	return nil
}

// run follows a script as iPXE would, with every fetch failing, and returns
// the seconds it sleeps and the command that ends it. buildarch is empty for an
// old iPXE.
func run(script, platform, buildarch string) (slept int, last string, err error) {
	cs, err := lex(script)
	if err != nil {
		return 0, "", err
	}
	vars := map[string]string{"platform": platform, "buildarch": buildarch}
	expand := strings.NewReplacer
	ok := true
	for i, steps := 0, 0; i < len(cs); i, steps = i+1, steps+1 {
		if steps > 10000 {
			return slept, "", fmt.Errorf("no end")
		}
		c := cs[i]
		if c.op == "&&" && !ok || c.op == "||" && ok {
			continue
		}
		w := make([]string, len(c.words))
		for j, x := range c.words {
			w[j] = expand("${platform}", vars["platform"], "${try}", vars["try"], "${buildarch}", vars["buildarch"]).Replace(x)
		}
		ok = true
		switch w[0] {
		case "set":
			vars[w[1]] = w[2]
		case "iseq":
			ok = w[1] == w[2]
		case "goto":
			for j := range cs {
				if cs[j].words[0] == ":"+w[1] {
					i = j
				}
			}
		case "sleep":
			n := 0
			if _, err := fmt.Sscan(w[1], &n); err != nil {
				return slept, "", err
			}
			slept += n
		case "kernel", "initrd", "boot", "chain", "sanboot":
			last, ok = w[0], false
		case "exit", "reboot":
			return slept, strings.Join(w, " "), nil
		}
	}
	return slept, last, nil
}
