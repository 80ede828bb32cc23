package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"bessemer/pxe/images"
	"bessemer/store"
)

var _ Images = (*images.Store)(nil)

// Images keeps disk images; [images.Store] does.
type Images interface {
	// Add fetches an image from a URL and keeps it under a name.
	Add(ctx context.Context, name, source string, progress func(done, total int64)) (*store.Image, error)
	// AddReader keeps what r gives under a name; size is -1 for unknown.
	AddReader(ctx context.Context, name, source string, r io.Reader, size int64) (*store.Image, error)
	// Delete removes an image, by UUID or name.
	Delete(nameOrUUID string) error
}

var imageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$`)

func listImages(c *call) error {
	if err := c.only(); err != nil {
		return err
	}
	all, err := collect(c, store.Images)
	if err != nil {
		return err
	}
	for _, i := range all {
		i.Source = maskURL(i.Source)
	}
	c.json(http.StatusOK, map[string]any{"images": orNoneOf(all)})
	return nil
}

func (c *call) image() (*store.Image, error) {
	ident := c.path("image")
	var i *store.Image
	err := c.api.db.View(func(tx *store.Tx) (err error) {
		if i, err = store.Images.Get(tx, ident); errors.Is(err, store.ErrNotFound) {
			i, err = store.Images.By(tx, "name", ident)
		}
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, refuse(http.StatusNotFound, "There is no image %s", printable(ident))
	}
	return i, err
}

func showImage(c *call) error {
	i, err := c.image()
	if err != nil {
		return err
	}
	return c.answerImage(http.StatusOK, i)
}

func (c *call) answerImage(status int, i *store.Image) error {
	v := *i
	v.Source = maskURL(v.Source)
	c.json(status, &v)
	return nil
}

// addImage has the appliance fetch an image from a URL.
func addImage(c *call) error {
	var body struct {
		Name   string `json:"name"`
		Source string `json:"source"`
	}
	if err := c.decode(&body); err != nil {
		return err
	}
	if err := c.mayAdd(body.Name); err != nil {
		return err
	}
	if !strings.HasPrefix(body.Source, "http://") && !strings.HasPrefix(body.Source, "https://") || len(body.Source) > 4096 {
		return invalid("The source must be an http or https URL")
	}
	ctx, cancel := c.lasting(6 * time.Hour)
	defer cancel()
	i, err := c.api.Images.Add(ctx, body.Name, body.Source, nil)
	if err != nil {
		return notFetched(err)
	}
	return c.answerImage(http.StatusCreated, i)
}

// notFetched is the refusal of an image that could not be had from its URL:
// for what is in no table of errors, the URL is to blame.
func notFetched(err error) error {
	if f := asFault(err, ""); f.status < 500 || f.status == http.StatusInsufficientStorage {
		return err
	}
	return invalid("%s", maskURL(sentence(err, errPanic)))
}

// uploadImage keeps the body as an image. A client may take as long as it
// likes, as long as something comes.
func uploadImage(c *call) error {
	name := c.path("image")
	if err := c.mayAdd(name); err != nil {
		return err
	}
	rc := http.NewResponseController(c.w)
	_ = rc.SetWriteDeadline(time.Time{})
	i, err := c.api.Images.AddReader(c.ctx, name, "upload", &patient{r: c.r.Body, rc: rc}, c.r.ContentLength)
	if err != nil {
		return err
	}
	_ = rc.SetWriteDeadline(time.Now().Add(time.Minute))
	return c.answerImage(http.StatusCreated, i)
}

func (c *call) mayAdd(name string) error {
	if c.api.Images == nil {
		return refuse(http.StatusServiceUnavailable, "This appliance keeps no images")
	}
	if !imageName.MatchString(name) || isUUID(name) {
		return invalid("Invalid image name %s: it must be 1 to 128 of the characters A-Z a-z 0-9 . _ + -, begin with a letter or digit, and be no UUID", shown(name))
	}
	return nil
}

func deleteImage(c *call) error {
	i, err := c.image()
	if err != nil {
		return err
	}
	if c.api.Images == nil {
		return refuse(http.StatusServiceUnavailable, "This appliance keeps no images")
	}
	if err := c.api.Images.Delete(i.UUID); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// patient is a body whose sender must give something every minute.
type patient struct {
	r  io.Reader
	rc *http.ResponseController
}

func (p *patient) Read(b []byte) (int, error) {
	_ = p.rc.SetReadDeadline(time.Now().Add(time.Minute))
	return p.r.Read(b)
}
