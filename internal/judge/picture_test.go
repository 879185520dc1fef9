package judge

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// file makes an image of a type; a GIF has frames pictures.
func file(t *testing.T, mime string, w, h, frames int) []byte {
	t.Helper()
	var b bytes.Buffer
	img := image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black, color.White})
	var err error
	switch mime {
	case "image/png":
		err = png.Encode(&b, img)
	case "image/jpeg":
		err = jpeg.Encode(&b, img, nil)
	case "image/gif":
		g := &gif.GIF{}
		for range frames {
			g.Image, g.Delay = append(g.Image, img), append(g.Delay, 1)
		}
		err = gif.EncodeAll(&b, g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// webp frames a chunk.
func webp(chunk string, body ...byte) []byte {
	b := append([]byte("RIFF\x00\x00\x00\x00WEBP"), chunk...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	return append(append(b, body...), make([]byte, 16)...)
}

func TestLook(t *testing.T) {
	for name, c := range map[string]struct {
		mime     string
		file     []byte
		w, h     int
		animated bool
	}{
		"png":        {"image/png", file(t, "image/png", 3, 5, 0), 3, 5, false},
		"jpeg":       {"image/jpeg", file(t, "image/jpeg", 17, 9, 0), 17, 9, false},
		"gif":        {"image/gif", file(t, "image/gif", 4, 2, 1), 4, 2, false},
		"moving gif": {"image/gif", file(t, "image/gif", 4, 2, 3), 4, 2, true},
		"webp VP8":   {"image/webp", webp("VP8 ", 0x30, 1, 0, 0x9d, 1, 0x2a, 0x40, 0x01, 0xf0, 0x40), 320, 240, false},
		"webp VP8L":  {"image/webp", webp("VP8L", 0x2f, 0x3f, 0xc1, 0x3b, 0), 320, 240, false},
		"webp VP8X":  {"image/webp", webp("VP8X", 0, 0, 0, 0, 0x3f, 1, 0, 0xef, 0, 0), 320, 240, false},
		"moving":     {"image/webp", webp("VP8X", 2, 0, 0, 0, 0x3f, 1, 0, 0xef, 0, 0), 320, 240, true},
	} {
		p, err := Look(Image{Data: base64.StdEncoding.EncodeToString(c.file), MIME: c.mime})
		if err != nil || p.Width != c.w || p.Height != c.h || p.Animated != c.animated || p.Bytes != len(c.file) {
			t.Errorf("%s: got %d × %d, moves %v, %d bytes: %v", name, p.Width, p.Height, p.Animated, p.Bytes, err)
		}
		if ref := p.Ref(); len(ref.SHA256) != 64 || ref.Bytes != len(c.file) || ref.MIME != c.mime {
			t.Errorf("%s: the record is %+v", name, ref)
		}
	}
}

func TestLook_Refused(t *testing.T) {
	whole := file(t, "image/png", 3, 5, 0)
	for name, c := range map[string]struct {
		mime string
		data string
		says string
	}{
		"no base64":   {"image/png", "data:image/png;base64,AAAA", "no base64"},
		"other type":  {"image/jpeg", base64.StdEncoding.EncodeToString(whole), "is image/png"},
		"not one":     {"image/png", base64.StdEncoding.EncodeToString([]byte("<svg/>")), "is text/plain"},
		"cut":         {"image/png", base64.StdEncoding.EncodeToString(whole[:12]), "size cannot be read"},
		"odd webp":    {"image/webp", base64.StdEncoding.EncodeToString(webp("ABCD")), "is application/octet-stream"},
		"not offered": {"image/bmp", base64.StdEncoding.EncodeToString([]byte("BM" + strings.Repeat("x", 40))), "is not image/png"},
	} {
		if _, err := Look(Image{Data: c.data, MIME: c.mime}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
}

// A file is a stranger's: whatever it holds, looking at it ends.
func TestLook_AnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		head := rapid.SampledFrom([]string{"GIF89a", "RIFF\x00\x00\x00\x00WEBPVP8X", "RIFF\x00\x00\x00\x00WEBPVP8 ", "\x89PNG\r\n\x1a\n", "\xff\xd8\xff"}).Draw(t, "head")
		body := append([]byte(head), rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "body")...)
		for _, mime := range []string{"image/gif", "image/webp", "image/png", "image/jpeg"} {
			if p, err := Look(Image{Data: base64.StdEncoding.EncodeToString(body), MIME: mime}); err == nil && (p.Width < 0 || p.Height < 0) {
				t.Fatalf("%d × %d", p.Width, p.Height)
			}
		}
	})
}
