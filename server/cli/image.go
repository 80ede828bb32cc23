package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

func imageCommand() *cli.Command {
	return &cli.Command{
		Name: "image", Usage: "disk images that the appliance keeps",
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "list images", ArgsUsage: " ",
				Action: listAction("/api/v1/images", "images", columns("uuid", "name", "size", "virtual_size=on disk", "format", "packed", "sha256", "created_at=added")),
			},
			{
				Name: "show", Usage: "show an image", ArgsUsage: "IMAGE", UsageText: "bessemer image show debian12",
				Action: func(c *cli.Context) error {
					image, err := one(c, "IMAGE")
					if err != nil {
						return err
					}
					cl, err := connect(c)
					if err != nil {
						return err
					}
					var img map[string]any
					if err := cl.Get(c.Context, "/api/v1/images/"+url.PathEscape(image), &img); err != nil {
						return err
					}
					return printOne(c, img, imageFirst, nil)
				},
			},
			{
				Name: "add", Usage: "keep an image", ArgsUsage: "FILE|URL",
				UsageText: "bessemer image add debian12.qcow2\nbessemer image add https://example.org/os.raw.zst --name os",
				Flags:     []cli.Flag{&cli.StringFlag{Name: "name", Usage: "its `NAME` (default: the file's, without endings)"}},
				Action:    imageAdd,
			},
			deleteCommand("delete images", "IMAGE...", "/api/v1/images/"),
		},
	}
}

// imageFirst are the fields of an image that one looks for, in that order.
var imageFirst = []string{"uuid", "name", "size", "virtual_size", "format", "packed"}

func imageAdd(c *cli.Context) error {
	src, err := one(c, "FILE|URL")
	if err != nil {
		return err
	}
	name := c.String("name")
	if name == "" {
		name = imageName(src)
	}
	cl, err := connect(c)
	if err != nil {
		return err
	}
	if strings.Contains(src, "://") {
		var img map[string]any
		if err := cl.Call(c.Context, http.MethodPost, "/api/v1/images", map[string]any{"name": name, "source": src}, &img); err != nil {
			return err
		}
		return printOne(c, img, imageFirst, nil)
	}
	f, err := os.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return usagef("%s is not a file", src)
	}
	resp, err := cl.Do(c.Context, http.MethodPut, "/api/v1/images/"+url.PathEscape(name), "application/octet-stream", newUpload(c.App.ErrWriter, f, info.Size()))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var img map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&img); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return printOne(c, img, imageFirst, nil)
}

// imageName is a source's last part without the endings of image files.
func imageName(src string) string {
	name := src[strings.LastIndex(src, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	for again := true; again; {
		again = false
		for _, e := range []string{".gz", ".zst", ".xz", ".raw", ".img", ".qcow2"} {
			if rest, ok := strings.CutSuffix(name, e); ok && rest != "" {
				name, again = rest, true
			}
		}
	}
	return name
}

// upload shows how far a file has been sent.
type upload struct {
	io.Reader
	w          io.Writer
	done, size int64
	tenth      int64
}

func newUpload(w io.Writer, r io.Reader, size int64) io.Reader {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return r
	}
	return &upload{Reader: r, w: w, size: max(size, 1)}
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	u.done += int64(n)
	if t := 100 * u.done / u.size; t != u.tenth || err != nil {
		u.tenth = t
		fmt.Fprintf(u.w, "\r\x1b[K%d%% of %s", t, bytesText(float64(u.size)))
		if err != nil {
			fmt.Fprint(u.w, "\r\x1b[K")
		}
	}
	return n, err
}
