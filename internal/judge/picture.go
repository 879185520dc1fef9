package judge

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	_ "image/gif"  // so that its size can be read
	_ "image/jpeg" // the same
	_ "image/png"  // the same
	"net/http"

	"attend/internal/engine"
)

// Picture is what can be known of an image without decompressing it.
type Picture struct {
	Image
	Bytes         int // of the file
	Width, Height int // in pixels
	Animated      bool
	SHA256        string // of the file, in hex
}

// Ref is the picture on the record.
func (p *Picture) Ref() engine.ImageRef {
	return engine.ImageRef{SHA256: p.SHA256, MIME: p.MIME, Bytes: p.Bytes}
}

// Look reads an image as far as its limits need: size, sides, whether it moves.
//
// Errors: it is no base64, not of the type it says, or of none that is known.
func Look(img Image) (Picture, error) {
	file, err := base64.StdEncoding.DecodeString(img.Data)
	if err != nil {
		return Picture{}, errors.New("it is no base64")
	}
	sum := sha256.Sum256(file)
	p := Picture{Image: img, Bytes: len(file), SHA256: hex.EncodeToString(sum[:])}
	if is := http.DetectContentType(file); is != img.MIME {
		return p, fmt.Errorf("it says %.40q and is %s", img.MIME, is)
	}
	switch img.MIME {
	case "image/webp":
		err = p.webp(file)
	case "image/png", "image/jpeg", "image/gif":
		var c image.Config
		c, _, err = image.DecodeConfig(bytes.NewReader(file))
		p.Width, p.Height = c.Width, c.Height
		p.Animated = img.MIME == "image/gif" && gifFrames(file) > 1
	default:
		return p, fmt.Errorf("%.40q is not image/png, image/jpeg, image/webp or image/gif", img.MIME)
	}
	if err != nil {
		return p, fmt.Errorf("its size cannot be read as %s", img.MIME)
	}
	return p, nil
}

// webp reads the sides from the first chunk (RFC 9649).
func (p *Picture) webp(file []byte) error {
	const frame = 12 // "RIFF", size, "WEBP"
	if len(file) < frame+18 {
		return errors.New("cut short")
	}
	chunk, b := string(file[frame:frame+4]), file[frame+8:]
	switch chunk {
	case "VP8 ": // a frame tag of 3 bytes, a start code of 3
		p.Width = int(binary.LittleEndian.Uint16(b[6:]) & 0x3fff)
		p.Height = int(binary.LittleEndian.Uint16(b[8:]) & 0x3fff)
	case "VP8L": // a signature, then 14 bits each
		bits := binary.LittleEndian.Uint32(b[1:])
		p.Width, p.Height = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1
	case "VP8X": // flags, 3 reserved, then 24 bits each
		const animation = 0x02
		p.Animated = b[0]&animation != 0
		p.Width = 1 + int(b[4]) + int(b[5])<<8 + int(b[6])<<16
		p.Height = 1 + int(b[7]) + int(b[8])<<8 + int(b[9])<<16
	default:
		return fmt.Errorf("unknown chunk %q", chunk)
	}
	return nil
}

// gifFrames counts the pictures of a GIF by its blocks, two at most: more makes
// no difference.
func gifFrames(file []byte) int {
	const header, descriptor = 13, 9
	if len(file) < header {
		return 0
	}
	at, frames := header+colours(file[10]), 0
	for at < len(file) && frames < 2 {
		switch file[at] {
		case 0x21: // an extension: its label, then its blocks
			at = afterBlocks(file, at+2)
		case 0x2c: // a picture: descriptor, colours, code size, then its blocks
			frames++
			if at+descriptor >= len(file) {
				return frames
			}
			at = afterBlocks(file, at+1+descriptor+colours(file[at+descriptor])+1)
		default: // the trailer
			return frames
		}
	}
	return frames
}

// colours is the size of a colour table in bytes, by its flags.
func colours(flags byte) int {
	if flags&0x80 == 0 {
		return 0
	}
	return 3 << (flags&7 + 1)
}

// afterBlocks passes over blocks that each begin with their length; 0 ends
// them.
func afterBlocks(file []byte, at int) int {
	for at < len(file) && file[at] != 0 {
		at += 1 + int(file[at])
	}
	return at + 1
}
