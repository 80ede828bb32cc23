package cli

import _ "embed"

//go:embed licenses.txt
var licenseText string
