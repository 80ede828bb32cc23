package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/urfave/cli/v2"
)

// configDrive puts together what the flags say of the config drive: nil for
// nothing, text for a URL or a ready image, else its parts.
func configDrive(c *cli.Context) (any, error) {
	meta, parts := map[string]any{}, map[string]any{}
	if src := c.String("config-drive"); src != "" {
		if strings.HasPrefix(src, "http://") || strings.HasPrefix(src, "https://") {
			return src, nil
		}
		raw, err := readAll(src)
		if err != nil {
			return nil, fmt.Errorf("--config-drive: %w", err)
		}
		if json.Unmarshal(raw, &parts) != nil {
			text := strings.TrimSpace(string(raw))
			if _, err := base64.StdEncoding.DecodeString(text); err != nil {
				return nil, usagef("--config-drive %s: neither JSON nor base64", src)
			}
			return text, nil
		}
		if m, ok := parts["meta_data"].(map[string]any); ok {
			meta = m
		}
	}
	if h := c.String("hostname"); h != "" {
		meta["hostname"], meta["name"] = h, h
	}
	keys, err := sshKeys(c.StringSlice("ssh-key"))
	if err != nil {
		return nil, err
	}
	if len(keys) > 0 {
		meta["public_keys"] = keys
	}
	if f := c.String("user-data"); f != "" {
		raw, err := readAll(f)
		if err != nil {
			return nil, fmt.Errorf("--user-data: %w", err)
		}
		parts["user_data"] = string(raw)
	}
	if len(meta) > 0 {
		parts["meta_data"] = maps.Clone(meta)
	}
	if len(parts) == 0 {
		return nil, nil
	}
	return parts, nil
}

func sshKeys(files []string) (map[string]any, error) {
	keys := map[string]any{}
	for i, f := range files {
		raw, err := readAll(f)
		if err != nil {
			return nil, fmt.Errorf("--ssh-key: %w", err)
		}
		if strings.Contains(string(raw), "PRIVATE KEY") {
			return nil, usagef("--ssh-key %s is a private key; give the .pub file", f)
		}
		keys[fmt.Sprintf("key%d", i)] = strings.TrimSpace(string(raw))
	}
	return keys, nil
}
