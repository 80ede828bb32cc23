package cli

import (
	"bufio"
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
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return fmt.Errorf("nothing was done")
}
