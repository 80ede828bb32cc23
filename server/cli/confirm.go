package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

// yesFlag goes with commands that ask before they destroy something.
func yesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask; without a terminal nothing is asked"}
}

// confirm asks a person whether something is to be destroyed. A program, which
// has no terminal, means what it says.
func confirm(c *cli.Context, question string) error {
	if c.Bool("yes") || !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	fmt.Fprintf(c.App.ErrWriter, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() { // nobody can wait for it: a terminal gives up reading only with the program
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-c.Context.Done():
		return errInterrupted
	case a := <-answers:
		if a == "y" || a == "yes" {
			return nil
		}
	}
	return errors.New("nothing was done")
}
