package ingest

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// Reasons to refuse a compressed body that only show while it is expanded.
var (
	errExpanded = errors.New("the body is too large once it is expanded")
	errRatio    = errors.New("the body expands too much")
)

// ratioGrace is how much may be expanded before the ratio counts: a few
// repeated lines are no bomb.
const ratioGrace = 1 << 20

// expander reads a gzip body of one member or more, within caps.
type expander struct {
	wire     *counter
	zip      *gzip.Reader // nil until the first bytes have come
	expanded int64
	max      int64 // expanded bytes
	ratio    int64 // expanded bytes for each byte on the wire
}

func newExpander(wire io.Reader, limits *Limits) *expander {
	return &expander{wire: &counter{r: wire}, max: limits.MaxExpandedBytes, ratio: limits.MaxRatio}
}

// Read implements io.Reader. Its errors are errExpanded, errRatio, what gzip
// finds wrong, and the wire's own.
func (e *expander) Read(p []byte) (int, error) {
	if e.zip == nil {
		zip, err := gzip.NewReader(bufio.NewReader(e.wire))
		if err != nil {
			return 0, wrapGzip(err)
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
	return n, wrapGzip(err)
}

func wrapGzip(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("expand gzip: %w", err)
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
