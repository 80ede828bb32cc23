//go:build linux

package hw

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// logFiles of /proc are what one wants to see of a machine afterwards.
var logFiles = map[string]string{
	"cmdline": "proc/cmdline", "cpuinfo": "proc/cpuinfo", "meminfo": "proc/meminfo", "modules": "proc/modules",
	"mounts": "proc/mounts", "partitions": "proc/partitions", "interrupts": "proc/interrupts", "uptime": "proc/uptime",
}

// maxLog bounds each log.
const maxLog = 4 << 20

// Logs implements Machine. Secrets of the command line are not in them.
func (m *Linux) Logs() map[string]io.Reader {
	logs := map[string]io.Reader{}
	add := func(name string, text []byte) { logs[name] = bytes.NewReader(hideSecrets(text)) }
	for name, file := range logFiles {
		if f, err := os.Open(m.path(file)); err == nil {
			text, _ := io.ReadAll(io.LimitReader(f, maxLog)) // what could be read is better than nothing
			f.Close()
			add(name, text)
		}
	}
	if kernel, err := kernelLog(m.path("dev/kmsg")); err == nil {
		add("dmesg", kernel)
	}
	for name, read := range m.o.Logs {
		add(filepath.Base(name), read())
	}
	return logs
}

// secretArgs are arguments of the command line that are nobody's business; the
// kernel writes its command line into its log.
var secretArgs = regexp.MustCompile(`(?i)([\w.-]*(?:token|password|passwd|secret)[\w.-]*=)("[^"]*"|[^\s"&;\\]+)`)

func hideSecrets(text []byte) []byte { return secretArgs.ReplaceAll(text, []byte("$1***")) }

// kernelLog reads the kernel's ring buffer, each record as dmesg shows it.
func kernelLog(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("read the kernel's log: %w", err)
	}
	defer f.Close()
	var text bytes.Buffer
	record := make([]byte, 8<<10) // the kernel gives one record for each read
	for text.Len() < maxLog {
		n, err := unix.Read(int(f.Fd()), record)
		if err == unix.EPIPE { // a record was overwritten meanwhile
			continue
		}
		if err != nil || n <= 0 { // EAGAIN: that was the last one
			break
		}
		text.WriteString(kernelLine(string(record[:n])))
	}
	return text.Bytes(), nil
}

// kernelLine turns "6,339,5140900,-;message\n KEY=value" into a line (the
// kernel's Documentation/ABI/testing/dev-kmsg).
func kernelLine(record string) string {
	head, text, _ := strings.Cut(record, ";")
	text, _, _ = strings.Cut(text, "\n")
	fields := strings.Split(head, ",")
	if len(fields) < 3 {
		return text + "\n"
	}
	us, _ := strconv.ParseInt(fields[2], 10, 64)
	return fmt.Sprintf("[%5d.%06d] %s\n", us/1e6, us%1e6, text)
}
