package store

import "time"

// An Image is a disk image that the appliance itself keeps. Its content lies
// in the data directory, images/<uuid>.
type Image struct {
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Size   int64  `json:"size"`             // bytes of the file
	Format string `json:"format"`           // raw or qcow2, by content
	Packed string `json:"packed,omitempty"` // gz, zst or xz, by content
	// VirtualSize is how many bytes the image takes on a disk; 0 for unknown.
	VirtualSize int64     `json:"virtual_size,omitempty"`
	SHA256      string    `json:"sha256"`
	SHA512      string    `json:"sha512"`
	Source      string    `json:"source,omitempty"` // file name or URL it came from
	CreatedAt   time.Time `json:"created_at"`
}

// Images is the table of images, by UUID.
var Images = NewTable("images", func(i *Image) string { return i.UUID },
	Unique("name", func(i *Image) []string { return some(i.Name) }),
)

// A ConfigDrive is the config drive of a node's instance, ready to be written.
type ConfigDrive struct {
	Node    string `json:"node"`
	Content []byte `json:"content"`       // gzip of an ISO 9660 image labelled config-2, or of a FAT one
	URL     string `json:"url,omitempty"` // instead of Content: where the agent shall get it
	// Source is the JSON that Content is still to be made of.
	Source []byte `json:"source,omitempty"`
}

// ConfigDrives is the table of config drives, by node UUID.
var ConfigDrives = NewTable("configdrives", func(c *ConfigDrive) string { return c.Node })
