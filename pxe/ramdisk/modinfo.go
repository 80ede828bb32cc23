package ramdisk

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// maxModule bounds a kernel module after decompression.
const maxModule = 256 << 20

// A module is one kernel module and what its .modinfo section says.
type module struct {
	name     string // as the kernel knows it: with underscores
	path     string // below the modules directory, without .xz and the like
	data     []byte // decompressed
	depends  []string
	pre      []string // soft dependencies, to be loaded before it
	post     []string // and after it
	aliases  []string
	firmware []string
	vermagic string
}

// moduleName is the name that the kernel gives to the module in a file:
// "kernel/crypto/crc32c-generic.ko.xz" is crc32c_generic.
func moduleName(file string) string {
	file = file[strings.LastIndexByte(file, '/')+1:]
	if i := strings.Index(file, ".ko"); i >= 0 {
		file = file[:i]
	}
	return strings.ReplaceAll(file, "-", "_")
}

// plainPath is a module's path without its compression's ending.
func plainPath(file string) string {
	if i := strings.LastIndex(file, ".ko"); i >= 0 {
		return file[:i+len(".ko")]
	}
	return file
}

// readFile reads a file and decompresses it when its name says that it is
// compressed, as distributions do with modules and firmware.
func readFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := decompressor(f, file)
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", file, err)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxModule+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(data) > maxModule {
		return nil, fmt.Errorf("read %s: larger than %d bytes", file, maxModule)
	}
	return data, nil
}

func decompressor(r io.Reader, name string) (io.Reader, error) {
	switch name[strings.LastIndexByte(name, '.')+1:] {
	case "xz":
		return xz.NewReader(r, xz.DefaultDictMax)
	case "gz":
		return gzip.NewReader(r)
	case "zst":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxModule))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return r, nil
}

// parseModule reads a module's .modinfo section: key=value strings, each ended
// by a zero byte (the kernel's include/linux/moduleparam.h).
func parseModule(path string, data []byte) (*module, error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("parse module %s: %w", path, err)
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("parse module %s: %w", path, errors.New("it has no .modinfo section, so it is not a kernel module"))
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("parse module %s: %w", path, err)
	}
	m := &module{name: moduleName(path), path: plainPath(path), data: data}
	for field := range strings.SplitSeq(string(info), "\x00") {
		key, value, _ := strings.Cut(field, "=")
		m.set(key, value)
	}
	return m, nil
}

func (m *module) set(key, value string) {
	switch key {
	case "depends":
		for name := range strings.SplitSeq(value, ",") {
			if name != "" {
				m.depends = append(m.depends, moduleName(name))
			}
		}
	case "softdep":
		pre, post := softdeps(value)
		m.pre, m.post = append(m.pre, pre...), append(m.post, post...)
	case "alias":
		m.aliases = append(m.aliases, value)
	case "firmware":
		m.firmware = append(m.firmware, value)
	case "vermagic":
		m.vermagic = value
	}
}

// softdeps splits "pre: a b post: c" into what is loaded before and after.
func softdeps(value string) (pre, post []string) {
	list := &pre
	for word := range strings.FieldsSeq(value) {
		switch word {
		case "pre:":
			list = &pre
		case "post:":
			list = &post
		default:
			*list = append(*list, strings.ReplaceAll(word, "-", "_"))
		}
	}
	return pre, post
}
