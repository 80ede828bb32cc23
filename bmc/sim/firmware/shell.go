package firmware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"
)

// A host is what iPXE's shell runs on.
type host interface {
	say(format string, args ...any)
	wait(ctx context.Context, d time.Duration) error
	address() (answer, bool)
	identityOf(name string) string
	link(ctx context.Context, up bool) error
	dhcp(ctx context.Context, userClass string) error
	load(ctx context.Context, u *url.URL, name string, sink io.Writer) (File, error)
	restart(ctx context.Context, p program) error
	bootKernel(kernel, initrd File, args []string) error
	sanboot(drive string) error
}

// traits are what differs between builds of iPXE and machines.
type traits struct {
	platform string // efi, pcbios
	arch     string // ${buildarch}; "" for builds that do not say
	cards    int    // network cards
	booted   int    // which of them has the cable
	old      bool   // a build without newer commands
}

// A shell is iPXE while it runs: settings, images, and the scripts it is in.
type shell struct {
	traits
	on      host
	set     map[string]string
	base    *url.URL // of relative names
	images  []image
	kernel  *image
	current []scriptLine
	steps   int
	depth   int
	chosen  bool  // a script that came over the network has said exit
	failed  error // the last command that failed
}

// An image is something fetched.
type image struct {
	file    File
	program program
	args    []string
}

const (
	kernelName = "kernel"
	initrdName = "initrd"
	maxImages  = 32
)

var (
	errNoMemory = errors.New("not enough space")
	errUsage    = errors.New("invalid argument")
	errNoImage  = errors.New("no such image")
	errFormat   = errors.New("exec format error")
)

func newShell(on host, t traits) *shell {
	return &shell{traits: t, on: on, set: map[string]string{}}
}

// resolve makes a URL of a name in a script.
func (s *shell) resolve(name string) (*url.URL, error) {
	u, err := url.Parse(name)
	if err != nil {
		return nil, fmt.Errorf("invalid URI: %w", err)
	}
	if u.Scheme != "" {
		return u, nil
	}
	if s.base == nil {
		return nil, fmt.Errorf("%q is not a URI, and there is no next-server", name)
	}
	return s.base.ResolveReference(u), nil
}

func (s *shell) fetch(ctx context.Context, uri, name string, sink io.Writer) (File, error) {
	u, err := s.resolve(uri)
	if err != nil {
		return File{}, err
	}
	return s.on.load(ctx, u, name, sink)
}

// acquire finds an image by its name, or fetches it.
func (s *shell) acquire(ctx context.Context, uri, as, name string) (*image, error) {
	for i := range s.images {
		if s.images[i].file.Name == uri {
			return &s.images[i], nil
		}
	}
	if len(s.images) >= maxImages {
		return nil, errNoMemory
	}
	img := image{}
	f, err := s.fetch(ctx, uri, as, &img.program)
	if err != nil {
		return nil, err
	}
	img.file = f
	img.file.Name = name
	s.images = append(s.images, img)
	return &s.images[len(s.images)-1], nil
}

// exec runs an image: a script or a boot program.
func (s *shell) exec(ctx context.Context, img *image) error {
	text, ok := img.program.whole()
	if !ok {
		return s.on.restart(ctx, img.program)
	}
	base := s.base
	defer func() { s.base = base }()
	if u, err := url.Parse(img.file.URL); err == nil {
		s.base = u
	}
	err := s.run(ctx, text)
	var e *exiting
	if errors.As(err, &e) {
		return fmt.Errorf("%s ended with %w", img.file.URL, errStatus(e.status))
	}
	return err
}

// errStatus is a script's exit status, seen from outside of it.
func errStatus(n int) error { return fmt.Errorf("status %d", n) }
