package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"bessemer/bmc/sim/tinyos"
	"bessemer/server/client"
)

// tinyImage is the name of the built-in image, which simulated machines boot.
const tinyImage = "tinyos"

// addTinyImage gives an appliance the built-in image, unless it has one of its
// name.
func addTinyImage(ctx context.Context, cl *client.Client) error {
	path := "/api/v1/images/" + tinyImage
	err := cl.Get(ctx, path, &struct{}{})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != http.StatusNotFound {
		return err
	}
	resp, err := cl.Do(ctx, http.MethodPut, path, "application/octet-stream", bytes.NewReader(tinyos.Image()))
	if err != nil {
		return fmt.Errorf("add the image %s: %w", tinyImage, err)
	}
	return resp.Body.Close()
}
