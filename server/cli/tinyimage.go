package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"bessemer/bmc/sim/tinyos"
	"bessemer/server/client"
)

// addTinyImage gives an appliance the built-in tiny image.
func addTinyImage(ctx context.Context, cl *client.Client) error {
	resp, err := cl.Do(ctx, http.MethodPut, "/api/v1/images/"+demoImage, "application/octet-stream", bytes.NewReader(tinyos.Image()))
	if err != nil {
		return fmt.Errorf("add the image %s: %w", demoImage, err)
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return err
}
