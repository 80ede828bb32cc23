package configs

import _ "embed"

// Example is the annotated example configuration: every key with its default.
//
//go:embed example.yaml
var Example string

// Unit is the systemd unit.
//
//go:embed bessemer.service
var Unit string
