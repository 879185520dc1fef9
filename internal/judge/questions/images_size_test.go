package questions

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/jpeg"
	"strings"
	"testing"

	"attend/internal/judge"
)

// The sizes are a thousandth of the real ones, which take a minute to encode
// where races are looked for.
func TestJevImages_Sizes(t *testing.T) {
	// What follows the picture in a file is not looked at, but counts.
	sized := func(shade byte, size int) judge.Image {
		var b bytes.Buffer
		if err := jpeg.Encode(&b, image.NewPaletted(image.Rect(0, 0, 300, 300), color.Palette{color.Gray{shade}}), nil); err != nil {
			t.Fatal(err)
		}
		b.Write(make([]byte, size-b.Len()))
		return judge.Image{MIME: mimeJPEG, Data: base64.StdEncoding.EncodeToString(b.Bytes())}
	}
	const most, mostInAll = 16 << 10, 32 << 10
	kept, dropped := jevImagesOf([]judge.Image{sized(1, most), sized(2, most+1), sized(3, most), sized(4, 10_000)}, most, mostInAll)
	if len(kept) != 2 || kept[0].Bytes != most || kept[1].Bytes != most {
		t.Errorf("%d images are kept, want the two of 16 KiB", len(kept))
	}
	want := "image 2 was left out: 16385 bytes: 16384 are taken; image 4 was left out: with it all images have more than 32768 bytes"
	if got := strings.Join(dropped, "; "); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	if jevMaxImage != most<<10 || jevMaxRequest != mostInAll<<10 {
		t.Errorf("a file may have %d bytes, all of them %d: want 16 and 32 MiB", jevMaxImage, jevMaxRequest)
	}
}
