package httpd

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"bessemer/pxe"
	"bessemer/store"
)

// Files opens a ramdisk that lies in two files; the functions are asked each
// time, so that a new ramdisk is served as soon as it is there.
func Files(kernel, initrd func() string) func(name string) (*pxe.File, error) {
	return func(name string) (*pxe.File, error) {
		path := ""
		switch name {
		case Kernel:
			path = kernel()
		case Initrd:
			path = initrd()
		}
		if path == "" {
			return nil, fmt.Errorf("ramdisk %s: %w", name, fs.ErrNotExist)
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return &pxe.File{ReadSeekCloser: f, Size: info.Size(), Modified: info.ModTime()}, nil
	}
}

// ramdisk serves the kernel or the initrd.
func (h *handler) ramdisk(name, label string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, boot := h.boot(r.Context(), h.machine(r, "ramdisk "+name))
		f, err := h.cfg.Ramdisk(name)
		if err != nil {
			h.refusal.Do(func() {
				h.log.Error().Err(err).Msg("no deploy ramdisk to serve; make one with `bessemer ramdisk build`")
			})
			http.Error(w, "no ramdisk", http.StatusNotFound)
			return
		}
		defer f.Close()
		w.Header().Set("ETag", fmt.Sprintf(`"%x-%x"`, f.Size, f.Modified.UnixNano()))
		h.serve(w, r, f, h.record(ctx, arrow{node: boot.Node, label: label, to: store.Boot, path: r.URL.Path}, r))
	}
}

// nbp serves a boot program to UEFI HTTP boot, which wants HEAD and a
// Content-Length (quirk D-19).
func (h *handler) nbp(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	content, ok := h.cfg.NBPs[name]
	if !ok {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	ctx, boot := h.boot(r.Context(), h.machine(r, "boot program "+name))
	w.Header().Set("ETag", h.tags[name])
	f := &pxe.File{ReadSeekCloser: memory{bytes.NewReader(content)}, Size: int64(len(content)), Modified: h.started}
	h.serve(w, r, f, h.record(ctx, arrow{node: boot.Node, label: store.LabelFetchBootfile, to: store.Boot, path: r.URL.Path}, r))
}

// tag is the ETag of a content that lies in memory.
func tag(content []byte) string {
	sum := sha256.Sum256(content)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// fileLabels are the arrows of the files of a run.
var fileLabels = map[string]string{
	pxe.FileImage: store.LabelDownloadImage,
	pxe.FileDrive: store.LabelDownloadDrive,
}

// file serves a file of the run whose token is in the path. The booter compares
// tokens; a wrong one and a wrong name get the same answer.
func (h *handler) file(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	label := fileLabels[name]
	if label == "" {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	f, err := h.cfg.Booter.File(r.Context(), r.PathValue("token"), name)
	switch {
	case errors.Is(err, pxe.ErrNoFile), errors.Is(err, fs.ErrNotExist):
		h.refusal.Do(func() {
			h.log.Warn().Stringer("from", peer(r)).Str("file", name).Msg("refused: no such file or token")
		})
		http.Error(w, "no such file", http.StatusNotFound)
		return
	case err != nil:
		h.log.Error().Err(err).Str("file", name).Msg("file of a run not served")
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	defer f.Close()
	w.Header().Set("Cache-Control", "no-store")
	if f.ETag != "" {
		w.Header().Set("ETag", f.ETag)
	}
	ctx := store.WithScope(r.Context(), store.Scope{Trace: f.Trace, Node: f.Node, Run: f.Run})
	h.serve(w, r, f, h.record(ctx, arrow{node: f.Node, label: label, to: store.HTTPStore, path: pxe.PathFile + "{token}/" + name}, r))
}

// serve answers GET and HEAD with ranges and conditions (RFC 9110).
func (h *handler) serve(w http.ResponseWriter, r *http.Request, f *pxe.File, done func(status int, sent int64, err error)) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if strings.Count(r.Header.Get("Range"), ",") > 0 {
		r.Header.Del("Range") // several ranges in one answer are of no use here, only of cost
	}
	c := &counter{ResponseWriter: w, status: http.StatusOK}
	http.ServeContent(c, r, "", f.Modified, f.ReadSeekCloser) // what it is, not wrapped: of an os.File the kernel sends (sendfile)
	done(c.status, c.sent, c.err)
}
