package image

import (
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
	"github.com/lima-vm/go-qcow2reader/image/qcow2"
	"github.com/lima-vm/go-qcow2reader/log"
)

// prepareLibrary registers our decompressors, once and before the library is
// used. Theirs makes a new decompressor for each cluster and reads a cluster in
// several goes, each of which starts anew.
var prepareLibrary = sync.OnceFunc(func() {
	qcow2.SetDecompressor(qcow2.CompressionTypeZlib, inflate)
	qcow2.SetDecompressor(qcow2.CompressionTypeZstd, unzstd)
	log.SetWarnFunc(nil) // what it warns of we refuse
})

// clusterReader decompresses one cluster. A read gives all that was asked for.
type clusterReader struct {
	io.Reader
	put func()
}

// Read implements io.Reader.
func (c *clusterReader) Read(p []byte) (int, error) {
	n, err := io.ReadFull(c.Reader, p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // a cluster is never short
	}
	return n, err
}

// Close gives the decompressor back.
func (c *clusterReader) Close() error {
	c.put()
	return nil
}

var inflaters = sync.Pool{New: func() any { return flate.NewReader(nil) }}

func inflate(r io.Reader) (io.ReadCloser, error) {
	d := inflaters.Get().(io.ReadCloser)
	if err := d.(flate.Resetter).Reset(r, nil); err != nil {
		return nil, err
	}
	return &clusterReader{d, func() { inflaters.Put(d) }}, nil
}

var unzstders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return err
	}
	return d
}}

func unzstd(r io.Reader) (io.ReadCloser, error) {
	d, ok := unzstders.Get().(*zstd.Decoder)
	if !ok {
		return nil, errors.New("make a zstd decoder")
	}
	if err := d.Reset(r); err != nil {
		return nil, err
	}
	return &clusterReader{d, func() { d.Reset(nil); unzstders.Put(d) }}, nil
}
