package ramdisk

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// Compressions of an initramfs.
const (
	Auto = "auto" // zstd when the kernel's configuration says that it can, else gzip
	Zstd = "zstd"
	Gzip = "gzip"
)

// chooseCompression decides for Auto, from the configuration that
// distributions put beside the kernel or its modules. Every kernel can gzip;
// zstd came with 5.9 and can be left out.
func chooseCompression(asked, kernel, modules, version string) (string, error) {
	switch asked {
	case Zstd, Gzip:
		return asked, nil
	case Auto, "":
	default:
		return "", fmt.Errorf("compression %q is not known; use auto, zstd or gzip", asked)
	}
	for _, config := range []string{filepath.Join(filepath.Dir(kernel), "config-"+version), filepath.Join(modules, "config")} {
		if slices.Contains(lines(config), "CONFIG_RD_ZSTD=y") {
			return Zstd, nil
		}
	}
	return Gzip, nil
}

// A compressor is a compressing writer that can end a block, so that the size
// of each part is known.
type compressor interface {
	io.WriteCloser
	Flush() error
}

// newCompressor writes to w; the same input makes the same output.
func newCompressor(method string, w io.Writer) (compressor, error) {
	if method == Zstd {
		// One goroutine: how blocks are cut must not depend on scheduling.
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20))
	}
	return gzip.NewWriterLevel(w, 6)
}

// counter counts what is written through it.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// writeFile writes a file completely or not at all.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it has its name
	defer f.Close()           // twice is harmless
	if err := write(f); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
