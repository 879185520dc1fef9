package judge

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Fence is the marker between which a model is given a window's data. It is
// derived from a secret of the store and the window, so that no event can hold
// it: whoever wrote the event knew neither.
func Fence(secret []byte, window string) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "fence\x00%s", window)
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// Enclose stands JSON of Render between two lines with a marker. An occurrence
// of the marker within it is escaped, so that the two are the only ones.
func Enclose(marker string, doc []byte) string {
	return fmt.Sprintf("%s\n%s\n%s", FenceLine("BEGIN", marker), escapeMarker(doc, marker), FenceLine("END", marker))
}

// FenceLine is a line of a fence: what is BEGIN or END.
func FenceLine(what, marker string) string {
	return fmt.Sprintf("-----%s DATA %s-----", what, marker)
}

// escapeMarker writes the last character of each occurrence as JSON escapes it.
// The last, since the first may belong to an escape already.
func escapeMarker(doc []byte, marker string) []byte {
	lower := bytes.Clone(doc)
	for i, c := range lower {
		if c >= 'A' && c <= 'F' {
			lower[i] += 'a' - 'A'
		}
	}
	var out []byte
	from := 0
	for {
		at := bytes.Index(lower[from:], []byte(marker))
		if at < 0 {
			return append(out, doc[from:]...)
		}
		last := from + at + len(marker) - 1
		out = append(out, doc[from:last]...)
		out = fmt.Appendf(out, `\u%04x`, doc[last])
		from = last + 1
	}
}
