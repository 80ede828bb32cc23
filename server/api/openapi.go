package api

import (
	_ "embed"
)

// openAPI is the OpenAPI 3.1 document of /api/v1.
//
//go:embed openapi.json
var openAPI []byte

func showOpenAPI(c *call) error {
	c.raw(200, openAPI)
	return nil
}
