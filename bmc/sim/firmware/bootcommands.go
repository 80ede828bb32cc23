package firmware

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// findBoot returns the commands that have to do with cards and images.
func findBoot(name string) command {
	switch name {
	case "dhcp", "ifconf":
		return (*shell).ifconf
	case "autoboot":
		return (*shell).autoboot
	case "imgfetch":
		return (*shell).imgfetch
	case "initrd", "module":
		return (*shell).initrd
	case "kernel", "imgselect", "imgload":
		return (*shell).selectKernel
	case "imgargs":
		return (*shell).imgargs
	case "imgfree":
		return (*shell).imgfree
	case "boot", "imgexec":
		return (*shell).boot
	case "chain":
		return (*shell).chain
	case "sanboot":
		return (*shell).sanbootDrive
	}
	return nil
}

// ifconf configures the cards that are named, or one of all: the first that
// gets an address.
func (s *shell) ifconf(ctx context.Context, args []string) error {
	opts, names, err := options(args, map[string]bool{"--configurator": true, "-c": true, "--timeout": true, "-t": true})
	if err != nil {
		return err
	}
	if by := opts["configurator"] + opts["c"]; by != "" && by != "dhcp" {
		return fmt.Errorf("configurator %q does not exist", by)
	}
	if len(names) == 0 {
		for i := range s.cards {
			names = append(names, "net"+strconv.Itoa(i))
		}
	}
	for _, name := range names {
		i, aerr := strconv.Atoi(strings.TrimPrefix(name, "net"))
		if name == "netX" {
			i, aerr = s.booted, nil
		}
		if aerr != nil || i < 0 || i >= s.cards {
			return fmt.Errorf("%s: no such interface", name)
		}
		if err = s.configure(ctx, i); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (s *shell) configure(ctx context.Context, card int) error {
	s.on.say("Configuring (net%d %s)...", card, s.mac(card))
	if card != s.booted {
		if err := s.on.link(ctx, false); err != nil {
			return err
		}
		return fmt.Errorf("net%d: link is down", card)
	}
	user := s.setting("user-class")
	if user == "" {
		user = "iPXE"
	}
	return s.on.dhcp(ctx, user)
}

// autoboot configures a card and boots what DHCP names.
func (s *shell) autoboot(ctx context.Context, args []string) error {
	if err := s.ifconf(ctx, args); err != nil {
		s.failed = err
		return err
	}
	file := s.setting("filename")
	if file == "" {
		s.failed = errors.New("nothing to boot: DHCP names no file")
		s.on.say("%s", s.failed)
		return s.failed
	}
	return s.chain(ctx, []string{"--autofree", file})
}

// imageOptions are those of the commands that fetch.
var imageOptions = map[string]bool{"--name": true, "-n": true, "--timeout": true, "-t": true, "--replace": false, "-r": false, "--autofree": false, "-a": false}

// grab fetches what the arguments name, or finds it among the images; as is
// what it is to be.
func (s *shell) grab(ctx context.Context, args []string, as string) (*image, map[string]string, error) {
	opts, rest, err := options(args, imageOptions)
	if err != nil {
		return nil, nil, err
	}
	if len(rest) == 0 {
		return nil, nil, errUsage
	}
	name := opts["name"] + opts["n"]
	if name == "" {
		p, _, _ := strings.Cut(rest[0], "?")
		name = path.Base(p)
	}
	s.on.say("%s...", rest[0])
	img, err := s.acquire(ctx, rest[0], as, name)
	if err != nil {
		return nil, nil, err
	}
	if len(rest) > 1 {
		img.args = rest[1:]
	}
	return img, opts, nil
}

func (s *shell) imgfetch(ctx context.Context, args []string) error {
	_, _, err := s.grab(ctx, args, "image")
	return err
}

func (s *shell) initrd(ctx context.Context, args []string) error {
	_, _, err := s.grab(ctx, args, initrdName)
	return err
}

func (s *shell) selectKernel(ctx context.Context, args []string) error {
	img, _, err := s.grab(ctx, args, kernelName)
	if err != nil {
		return err
	}
	if img.file.Size == 0 {
		return errFormat
	}
	kernel := *img
	s.kernel = &kernel
	return nil
}

func (s *shell) imgargs(_ context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	if s.kernel != nil && s.kernel.file.Name == args[0] {
		s.kernel.args = slices.Clone(args[1:])
		return nil
	}
	return errNoImage
}

func (s *shell) imgfree(context.Context, []string) error {
	s.images, s.kernel = nil, nil
	return nil
}

// boot starts the kernel that was selected. Its initramfs is the image that
// initrd= names; without that, the one that is there.
func (s *shell) boot(ctx context.Context, args []string) error {
	if _, rest, err := options(args, imageOptions); err != nil || len(rest) > 0 {
		if err != nil {
			return err
		}
		return s.chain(ctx, args)
	}
	if s.kernel == nil {
		return errNoImage
	}
	named := ""
	for _, a := range s.kernel.args {
		if n, ok := strings.CutPrefix(a, "initrd="); ok {
			named = n
		}
	}
	initrd := File{}
	for _, img := range s.images {
		if img.file.Name != s.kernel.file.Name && (named == "" || img.file.Name == named) {
			initrd = img.file
		}
	}
	if named != "" && s.platform == "efi" && initrd.Name == "" {
		return fmt.Errorf("initrd=%s names no image: %w", named, errNoImage)
	}
	return s.on.bootKernel(s.kernel.file, initrd, s.kernel.args)
}

// chain fetches an image and runs it; with --replace it takes the place of the
// script.
func (s *shell) chain(ctx context.Context, args []string) error {
	img, opts, err := s.grab(ctx, args, "boot script")
	if err != nil {
		s.failed = err
		s.on.say("%s", err)
		return err
	}
	own := *img
	s.images = slices.DeleteFunc(s.images, func(i image) bool { return i.file.Name == own.file.Name }) // as with --autofree: nothing runs twice
	_, long := opts["replace"]
	if _, short := opts["r"]; long || short {
		if text, is := own.program.whole(); is {
			if s.base, err = s.resolve(own.file.URL); err != nil {
				return err
			}
			return &replacing{text}
		}
	}
	return s.exec(ctx, &own)
}

func (s *shell) sanbootDrive(_ context.Context, args []string) error {
	opts, rest, err := options(args, map[string]bool{
		"--drive": true, "-d": true, "--no-describe": false, "-n": false, "--keep": false, "-k": false, "--filename": true, "-f": true,
	})
	if err != nil {
		return err
	}
	drive := opts["drive"] + opts["d"]
	if drive == "" {
		drive = "0x80"
	}
	if len(rest) > 0 {
		return fmt.Errorf("%s: operation not supported", rest[0])
	}
	return s.on.sanboot(drive)
}
