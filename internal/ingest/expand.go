package ingest

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// coding is how a body is compressed, by its name in Content-Encoding; "" is not
// at all.
type coding string

const (
	codingGzip coding = "gzip"
	codingZstd coding = "zstd"
)

// Reasons to refuse a compressed body that only show while it is expanded.
var (
	errExpanded = errors.New("the body is too large once it is expanded")
	errRatio    = errors.New("the body expands too much")
	errWindow   = errors.New("the body needs too much memory to expand")
)

// ratioGrace is how much may be expanded before the ratio counts: a few
// repeated lines are no bomb.
const ratioGrace = 1 << 20

// maxWindow is how far back a zstd frame may refer, which is what expanding it
// takes of memory: what RFC 8878 recommends, and every level of the zstd command
// keeps to without --long or --ultra.
const maxWindow = 8 << 20

// expander reads a compressed body of one member or frame, or more, within caps.
type expander struct {
	coding   coding
	wire     *counter
	zip      io.Reader // nil until the first bytes have come
	expanded int64
	max      int64 // expanded bytes
	ratio    int64 // expanded bytes for each byte on the wire
}

func newExpander(wire io.Reader, c coding, limits *Limits) *expander {
	return &expander{coding: c, wire: &counter{r: wire}, max: limits.MaxExpandedBytes, ratio: limits.MaxRatio}
}

// Read implements io.Reader. Its errors are errExpanded, errRatio, errWindow,
// what gzip or zstd finds wrong, and the wire's own.
func (e *expander) Read(p []byte) (int, error) {
	if e.zip == nil {
		zip, err := e.open()
		if err != nil {
			return 0, e.wrap(err)
		}
		e.zip = zip
	}
	n, err := e.zip.Read(p)
	e.expanded += int64(n)
	switch {
	case e.expanded > e.max:
		return 0, fmt.Errorf("%w: more than %d bytes", errExpanded, e.max)
	case e.expanded > ratioGrace && e.expanded/e.ratio > e.wire.n:
		return 0, fmt.Errorf("%w: more than %d times", errRatio, e.ratio)
	}
	return n, e.wrap(err)
}

// open starts a reader of the coding. That of zstd works in the goroutine that
// reads, so that nothing is left of it when nobody reads any more.
func (e *expander) open() (io.Reader, error) {
	if e.coding == codingZstd {
		return zstd.NewReader(e.wire,
			zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(maxWindow), zstd.WithDecoderMaxWindow(maxWindow))
	}
	return gzip.NewReader(bufio.NewReader(e.wire))
}

func (e *expander) wrap(err error) error {
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("%w: its window is over %d bytes, so compress it without --long and --ultra", errWindow, maxWindow)
	}
	return fmt.Errorf("expand %s: %w", e.coding, err)
}

// counter counts what is read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
