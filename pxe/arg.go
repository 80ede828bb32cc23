package pxe

import (
	"fmt"
	"strings"
)

// maxArg is the longest kernel argument taken; the kernel's whole command
// line is limited to 2048 bytes on x86.
const maxArg = 512

const argPunctuation = "._:/,=@%+-[]~*!?^"

// CheckArg checks that s can stand in a boot script and on a kernel command
// line as one word: letters, digits and ._:/,=@%+-[]~*!?^ only. Blanks, quotes,
// control characters, and what iPXE gives a meaning (#, ${...}, &&, ||, ;, \)
// would let a value become a command (CVE-2026-46447 in Ironic).
func CheckArg(s string) error {
	if s == "" {
		return fmt.Errorf("empty kernel argument")
	}
	if len(s) > maxArg {
		return fmt.Errorf("kernel argument %.20q... has %d bytes, at most %d are taken", s, len(s), maxArg)
	}
	for i := range len(s) {
		if !argByte(s[i]) {
			return fmt.Errorf("kernel argument %q: character %q at %d is not taken; use letters, digits and %s", s, s[i], i, argPunctuation)
		}
	}
	return nil
}

// CheckArgs checks each of args, and their sum against the kernel's limit.
func CheckArgs(args []string) error {
	total := 0
	for _, a := range args {
		if err := CheckArg(a); err != nil {
			return err
		}
		total += len(a) + 1
	}
	if total > 1536 {
		return fmt.Errorf("kernel arguments have %d bytes together, at most 1536 are taken", total)
	}
	return nil
}

func argByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte(argPunctuation, c) >= 0
}
