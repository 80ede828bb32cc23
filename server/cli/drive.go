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
			return src, alone(c, src)
		}
		raw, err := readAll(src)
		if err != nil {
			return nil, fmt.Errorf("--config-drive: %w", err)
		}
		if jerr := json.Unmarshal(raw, &parts); jerr != nil {
			text := strings.TrimSpace(string(raw))
			if _, err := base64.StdEncoding.DecodeString(text); err != nil {
				return nil, usagef("--config-drive %s: neither base64 nor a JSON object: %v", src, jerr)
			}
			return text, alone(c, src)
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

// alone refuses the flags that say what is in a config drive beside one that
// is ready.
func alone(c *cli.Context, src string) error {
	for _, f := range []string{"hostname", "ssh-key", "user-data"} {
		if c.IsSet(f) {
			return usagef("--config-drive %s is ready as it is: --%s cannot be put into it", src, f)
		}
	}
	return nil
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
