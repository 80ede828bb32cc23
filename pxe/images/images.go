// Package images keeps disk images in the data directory, and says what the
// image is that an instance_info names.
//
// An image is added once: copied, looked at, and its checksums taken; nothing
// is converted. A file that could not be deployed (a qcow2 image with a
// backing file, an HTML error page) is refused when it is added. What it does
// not do: serve the files, which package httpd does.
package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"bessemer/agent/fetch"
	"bessemer/store"
)

var (
	// ErrInvalid is wrapped by errors that an instance_info or a name is to
	// blame for.
	ErrInvalid = errors.New("not usable")
	// ErrFormat is wrapped when the content of an image is what cannot be
	// deployed.
	ErrFormat = errors.New("not an image that can be deployed")
	// ErrNoSpace is wrapped when the data directory has no room for an image.
	ErrNoSpace = errors.New("not enough space")
	// ErrInUse is wrapped when an image is to be deleted that a deploy needs.
	ErrInUse = errors.New("in use")
)

// A Store is the appliance's images.
type Store struct {
	dir    string
	db     *store.DB
	policy fetch.Policy
	client *http.Client
}

// tempPrefix begins the names of files that are not complete.
const tempPrefix = ".add-"

// Open opens the images in dir, creating it if need be, and clears away what
// an interrupted Add or Delete left there. The policy holds for every URL that
// an image or its checksum is fetched from.
func Open(dir string, db *store.DB, policy fetch.Policy) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open images: %w", err)
	}
	s := &Store{dir: dir, db: db, policy: policy, client: policy.Client()}
	if err := s.clear(); err != nil {
		return nil, fmt.Errorf("open images: %w", err)
	}
	return s, nil
}

// clear removes files that are incomplete or belong to no image. Other files
// in the directory are not ours and stay.
func (s *Store) clear() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	images, err := s.List()
	if err != nil {
		return err
	}
	for _, i := range images {
		known[i.UUID] = true
	}
	for _, e := range entries {
		ours := strings.HasPrefix(e.Name(), tempPrefix) || isUUID(e.Name()) && !known[e.Name()]
		if ours && e.Type().IsRegular() {
			err = errors.Join(err, os.Remove(filepath.Join(s.dir, e.Name())))
		}
	}
	return err
}

func isUUID(s string) bool {
	id, err := uuid.Parse(s)
	return err == nil && id.String() == s
}

// List returns all images, by UUID.
func (s *Store) List() ([]*store.Image, error) {
	var images []*store.Image
	err := s.db.View(func(tx *store.Tx) error {
		for i, err := range store.Images.All(tx) {
			if err != nil {
				return err
			}
			images = append(images, i)
		}
		return nil
	})
	return images, err
}

// Get returns the image with the given name or UUID, or store.ErrNotFound.
func (s *Store) Get(nameOrUUID string) (*store.Image, error) {
	var image *store.Image
	err := s.db.View(func(tx *store.Tx) (err error) {
		image, err = find(tx, nameOrUUID)
		return err
	})
	return image, err
}

func find(tx *store.Tx, ident string) (*store.Image, error) {
	image, err := store.Images.Get(tx, ident)
	if !errors.Is(err, store.ErrNotFound) {
		return image, err
	}
	return store.Images.By(tx, "name", ident)
}

// Delete removes the image with the given name or UUID. It is ErrInUse while a
// node that is being deployed needs it.
func (s *Store) Delete(nameOrUUID string) error {
	var image *store.Image
	err := s.db.Update(func(tx *store.Tx) (err error) {
		if image, err = find(tx, nameOrUUID); err != nil {
			return err
		}
		if err := checkUnused(tx, image); err != nil {
			return err
		}
		return store.Images.Delete(tx, image.UUID)
	})
	if err != nil {
		return fmt.Errorf("delete image: %w", err)
	}
	if err := os.Remove(s.path(image.UUID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete image: %w", err)
	}
	return nil
}

func checkUnused(tx *store.Tx, image *store.Image) error {
	for _, state := range []store.ProvisionState{store.Deploying, store.DeployWait, store.DeployHold} {
		for n, err := range store.Nodes.Where(tx, "provision_state", string(state)) {
			if err != nil {
				return err
			}
			source, _ := n.InstanceInfo["image_source"].(string)
			if id := strings.TrimPrefix(source, "glance://"); id == image.UUID || id == image.Name {
				return fmt.Errorf("image %s is %w: node %s is being deployed with it; wait, or abort that", ident(image), ErrInUse, n.UUID)
			}
		}
	}
	return nil
}

// OpenFile opens the content of the image with the given UUID.
func (s *Store) OpenFile(uuid string) (*os.File, error) {
	if !isUUID(uuid) {
		return nil, &store.KeyError{Table: "images", Key: uuid, Err: store.ErrNotFound}
	}
	f, err := os.Open(s.path(uuid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open image %s: its file is missing: delete it and add it again: %w", uuid, store.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("open image: %w", err)
	}
	return f, nil
}

// Verify reads the content of every image and returns those whose file is
// missing or no longer has the image's checksum, with the reason.
func (s *Store) Verify(ctx context.Context) (map[string]error, error) {
	images, err := s.List()
	if err != nil {
		return nil, err
	}
	bad := map[string]error{}
	for _, i := range images {
		if err := s.verify(ctx, i); err != nil {
			if ctx.Err() != nil {
				return bad, err
			}
			bad[i.UUID] = err
		}
	}
	return bad, nil
}

func (s *Store) verify(ctx context.Context, i *store.Image) error {
	f, err := s.OpenFile(i.UUID)
	if err != nil {
		return err
	}
	defer f.Close()
	sums, n, err := sum(ctx, f)
	if err != nil {
		return fmt.Errorf("read image %s: %w", ident(i), err)
	}
	if n != i.Size || sums.sha256() != i.SHA256 {
		return fmt.Errorf("image %s is damaged on the disk: delete it and add it again", ident(i))
	}
	return nil
}

func (s *Store) path(uuid string) string { return filepath.Join(s.dir, uuid) }

func ident(i *store.Image) string {
	if i.Name == "" {
		return i.UUID
	}
	return fmt.Sprintf("%q", i.Name)
}
