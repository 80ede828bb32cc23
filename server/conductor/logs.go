package conductor

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// collectLogs keeps the ramdisk's logs. They are for people; nothing depends
// on them, so an agent that gives none is no failure.
func collectLogs(ctx context.Context, t *Task) error {
	if t.c.config.CollectLogs != "always" {
		return nil
	}
	if err := t.saveLogs(ctx); err != nil {
		t.c.log.Warn().Str("node", t.Node.UUID).Uint64("run", t.Run.ID).Str("error", t.redact(err.Error())).Msg("collect ramdisk logs")
	}
	return nil
}

// collectFailureLogs keeps the logs of a ramdisk in which something failed,
// if there is one to ask.
func collectFailureLogs(ctx context.Context, t *Task) error {
	if t.c.config.CollectLogs == "never" || t.Node.Agent.URL == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return t.saveLogs(ctx)
}

func (t *Task) saveLogs(ctx context.Context) error {
	res, err := t.ask(ctx, "log.collect_system_logs", nil)
	if err != nil {
		return err
	}
	text, _ := res["system_logs"].(string)
	archive, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(archive) == 0 {
		return errors.New("the agent's system_logs are not base64")
	}
	dir := filepath.Join(t.c.config.Dir, "logs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep ramdisk logs: %w", err)
	}
	name := fmt.Sprintf("%s_%016x_%s.tar.gz", t.Node.UUID, t.Run.ID, strings.ReplaceAll(t.w.Name, " ", "-"))
	if err := os.WriteFile(filepath.Join(dir, name), archive, 0o600); err != nil {
		return fmt.Errorf("keep ramdisk logs: %w", err)
	}
	return pruneLogs(dir, t.Node.UUID, t.c.config.LogsPerNode)
}

// pruneLogs removes the oldest log archives of a node beyond a number. Their
// names sort by run.
func pruneLogs(dir, node string, keep int) error {
	names, err := fs.Glob(os.DirFS(dir), node+"_*.tar.gz")
	if err != nil {
		return fmt.Errorf("prune ramdisk logs: %w", err)
	}
	slices.Sort(names)
	for _, name := range names[:max(0, len(names)-keep)] {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("prune ramdisk logs: %w", err)
		}
	}
	return nil
}
