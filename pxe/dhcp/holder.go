package dhcp

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// holder names the programs that have a UDP port open, for an error message.
func holder(port int) string {
	inodes := udpInodes("/proc/thread-self/net/udp", port)
	var who []string
	for _, fd := range globs("/proc/[0-9]*/fd/*") {
		link, err := os.Readlink(fd)
		if err != nil || !inodes[link] {
			continue
		}
		dir := filepath.Dir(filepath.Dir(fd))
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		w := fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), filepath.Base(dir))
		if len(who) == 0 || who[len(who)-1] != w {
			who = append(who, w)
		}
	}
	if len(who) == 0 {
		return "another program (`ss -lunp` as root names it)"
	}
	return strings.Join(who, " and ")
}

func globs(pattern string) []string {
	m, _ := filepath.Glob(pattern) // the pattern is well-formed
	return m
}

// udpInodes reads the sockets of a port from /proc/net/udp, as the links
// in a process's fd directory show them.
func udpInodes(path string, port int) map[string]bool {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	inodes := map[string]bool{}
	want := fmt.Sprintf(":%04X", port)
	for sc := bufio.NewScanner(f); sc.Scan(); {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
		field := strings.Fields(sc.Text())
		if len(field) > 9 && strings.HasSuffix(field[1], want) {
			inodes["socket:["+field[9]+"]"] = true
		}
	}
	return inodes
}
