package ipxe

// A Licence says under which terms a part of the program comes, for
// `bessemer licenses`.
type Licence struct {
	Name    string // of the part
	Files   []string
	SPDX    string
	Version string // commit of its source
	Source  string // where the complete source of that version is
	Build   string // where the build scripts and changes to it are
	Notice  string
}

// Licences returns those of the built-in binaries.
func Licences() []Licence {
	return []Licence{{
		Name:    "iPXE",
		Files:   Builtin().Names(),
		SPDX:    "GPL-2.0-only OR GPL-2.0-or-later", // by file; the binary as a whole is under version 2
		Version: "0cc8177cf798bb4cb0cabd1863056ee0245560d5",
		Source:  "https://github.com/ipxe/ipxe/tree/0cc8177cf798bb4cb0cabd1863056ee0245560d5",
		Build:   "https://github.com/tinkerbell/ipxedust/tree/a4542aee25c6 (directory binary/script)",
		Notice: "iPXE is free software under the GNU General Public License, version 2. " +
			"Its binaries are carried as data and served to machines; in the UEFI ones the embedded start script is replaced by pxe/ipxe/embedded.ipxe of this program. " +
			"Files in the ipxe directory of the data directory replace them.",
	}}
}
