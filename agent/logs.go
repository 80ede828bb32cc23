package agent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// maxLog is how much of each log is sent, its end.
const maxLog = 4 << 20

// collectLogs packs the system's logs as Ironic stores them.
func (x *executor) collectLogs(context.Context, params, *job) (map[string]any, error) {
	b, err := packLogs(x.machine.Logs(), time.Now())
	if err != nil {
		return nil, fail("CommandExecutionError", "Error collecting logs", err)
	}
	return map[string]any{"system_logs": base64.StdEncoding.EncodeToString(b)}, nil
}

func packLogs(logs map[string]io.Reader, now time.Time) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		text, err := tail(logs[name], maxLog)
		if err != nil { // one log that cannot be read does not cost the others
			text = fmt.Appendf(text, "\nread log: %v\n", err)
		}
		file := path.Join("logs", strings.ReplaceAll(name, "..", "_"))
		if err := t.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(text)), ModTime: now}); err != nil {
			return nil, fmt.Errorf("pack log %s: %w", name, err)
		}
		if _, err := t.Write(text); err != nil {
			return nil, fmt.Errorf("pack log %s: %w", name, err)
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// tail returns the last n bytes, reading in bounded memory.
func tail(r io.Reader, n int) ([]byte, error) {
	var b []byte
	buf := make([]byte, 64<<10)
	for {
		m, err := r.Read(buf)
		if b = append(b, buf[:m]...); len(b) > 2*n {
			b = append(b[:0], b[len(b)-n:]...)
		}
		if err == io.EOF {
			return b[max(0, len(b)-n):], nil
		}
		if err != nil {
			return b[max(0, len(b)-n):], err
		}
	}
}
