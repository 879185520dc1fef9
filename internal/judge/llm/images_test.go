package llm

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"
	"testing"

	"attend/internal/judge"
	"attend/internal/judge/judgetest"
)

// picture makes an image of a type and size; a GIF has frames pictures.
func picture(t *testing.T, mime string, w, h, frames int) judge.Image {
	t.Helper()
	img := image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black, color.White})
	var b bytes.Buffer
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
	case "image/webp": // the header of one
		b.WriteString("RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00")
		b.Write([]byte{byte(w - 1), byte((w - 1) >> 8), 0, byte(h - 1), byte((h - 1) >> 8), 0, 0, 0, 0, 0, 0, 0})
	}
	if err != nil {
		t.Fatal(err)
	}
	return judge.Image{Data: base64.StdEncoding.EncodeToString(b.Bytes()), MIME: mime}
}

// padded makes a file larger: what stands behind a PNG's end is no part of it.
func padded(t *testing.T, img judge.Image, size int) judge.Image {
	t.Helper()
	file, err := base64.StdEncoding.DecodeString(img.Data)
	if err != nil {
		t.Fatal(err)
	}
	return judge.Image{Data: base64.StdEncoding.EncodeToString(append(file, make([]byte, size-len(file))...)), MIME: img.MIME}
}

// Each API's formats and limits (seed, "llmJudge").
func TestImages_Limits(t *testing.T) {
	all := func() []judge.Image {
		return []judge.Image{
			picture(t, "image/png", 10, 10, 0), picture(t, "image/jpeg", 10, 10, 0), picture(t, "image/webp", 10, 10, 0),
			picture(t, "image/gif", 10, 10, 1), picture(t, "image/gif", 10, 10, 2),
		}
	}
	large := padded(t, picture(t, "image/png", 10, 10, 0), 10_000_001)
	few, many := []judge.Image{picture(t, "image/png", 2001, 1, 0)}, slices.Repeat([]judge.Image{picture(t, "image/png", 1, 2001, 0)}, 21)
	for _, c := range []struct {
		name   string
		api    API
		images []judge.Image
		sent   int
		says   string
	}{
		{"types", Anthropic, all(), 5, ""},
		{"types", OpenAI, all(), 4, "5: a GIF that moves is not taken"},
		{"types", Chat, all(), 4, "5: a GIF that moves is not taken"},
		{"types", Gemini, all(), 3, "4: image/gif is not taken; 5: image/gif is not taken"},
		{"10 MB", Anthropic, []judge.Image{large}, 0, "1: 10000001 bytes are more than 10000000"},
		{"10 MB, and no more", Anthropic, []judge.Image{padded(t, picture(t, "image/png", 10, 10, 0), 10_000_000)}, 1, ""},
		{"10 MB elsewhere", OpenAI, []judge.Image{large}, 1, ""},
		{"8000 px", Anthropic, []judge.Image{picture(t, "image/png", 8000, 1, 0), picture(t, "image/png", 8001, 1, 0)}, 1, "2: 8001 × 1 pixels are more than 8000 a side"},
		{"2000 px of few", Anthropic, few, 1, ""},
		{"2000 px of many", Anthropic, many, 0, "1: 1 × 2001 pixels are more than 2000 a side"},
		{"20 MB in all", Gemini, []judge.Image{large, large}, 1, "2: there was no room left in the request"},
		{"no image", OpenAI, []judge.Image{{Data: "AAAA", MIME: "image/png"}}, 0, "1: it says \"image/png\" and is application/octet-stream"},
		{"no base64", Gemini, []judge.Image{{Data: "data:,", MIME: "image/png"}}, 0, "1: it is no base64"},
	} {
		t.Run(string(c.api)+" "+c.name, func(t *testing.T) {
			host := say(t, judgetest.Said{Text: good})
			in := input()
			in.Images = c.images
			reply, err := judgeOf(t, c.api, host, nil).Judge(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			x, asked := reply.Calls[0], host.Asked()[0]
			if len(asked.Images) != c.sent || len(x.Images) != c.sent || !strings.Contains(x.Message, c.says) || (x.Message == "") != (c.says == "") {
				t.Fatalf("sent %v, on record %v, %q; want %d, %q", asked.Images, x.Images, x.Message, c.sent, c.says)
			}
			for i, ref := range x.Images {
				if ref.MIME != asked.Images[i] || len(ref.SHA256) != 64 || ref.Bytes == 0 {
					t.Errorf("image %d is %q, on record %+v", i, asked.Images[i], ref)
				}
			}
			if strings.Contains(x.Prompt, "base64") || strings.Contains(x.Prompt, c.images[0].Data) {
				t.Error("the record's prompt holds an image")
			}
		})
	}
}

func TestImages_Off(t *testing.T) {
	for _, api := range apis() {
		host := say(t, judgetest.Said{Text: good})
		in := input()
		in.Images = []judge.Image{picture(t, "image/png", 10, 10, 0)}
		reply, err := judgeOf(t, api, host, func(o *Options) { o.NoImages = true }).Judge(t.Context(), in)
		if err != nil || len(host.Asked()[0].Images) != 0 || len(reply.Calls[0].Images) != 0 || reply.Calls[0].Message != "" {
			t.Errorf("%s: %v, sent %v", api, err, host.Asked()[0].Images)
		}
	}
}

// A failure tells of images too, and of how many there were.
func TestImages_ToldOnFailures(t *testing.T) {
	host := say(t, judgetest.Said{Text: good, Stop: "MAX_TOKENS"})
	in := input()
	in.Images = slices.Repeat([]judge.Image{{Data: "!", MIME: "image/png"}}, 7)
	e, x := fails(t, judgeOf(t, Gemini, host, nil), in)
	if !strings.HasPrefix(x.Message, e.Message+"; images that were not sent: 1: it is no base64; 2: ") || !strings.HasSuffix(x.Message, "4: it is no base64; and 3 more") {
		t.Errorf("the record says %q", x.Message)
	}
}
