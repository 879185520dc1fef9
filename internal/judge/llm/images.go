package llm

import (
	"fmt"
	"slices"

	"attend/internal/judge"
)

// limits are what a host takes of images (seed, "llmJudge"). A 0 is no limit.
type limits struct {
	types      []string
	bytes      int // of a file
	side       int // of a picture, in pixels
	many       int // images above which sideOfMany holds
	sideOfMany int
	request    int  // bytes of all images as they are sent
	animated   bool // GIFs that move
}

// choose returns the images that a host takes, and why the others are left out:
// a host would refuse the whole request over one of them.
func (l limits) choose(images []judge.Image) (pictures []judge.Picture, dropped []string) {
	side := l.side
	if l.many > 0 && len(images) > l.many {
		side = l.sideOfMany
	}
	room := l.request
	for i, img := range images {
		p, err := judge.Look(img)
		why := ""
		switch {
		case err != nil:
			why = err.Error()
		case !slices.Contains(l.types, p.MIME):
			why = p.MIME + " is not taken"
		case p.MIME == "image/gif" && p.Animated && !l.animated:
			why = "a GIF that moves is not taken"
		case l.bytes > 0 && p.Bytes > l.bytes:
			why = fmt.Sprintf("%d bytes are more than %d", p.Bytes, l.bytes)
		case side > 0 && max(p.Width, p.Height) > side:
			why = fmt.Sprintf("%d × %d pixels are more than %d a side", p.Width, p.Height, side)
		case len(p.Data) > room:
			why = "there was no room left in the request"
		}
		if why != "" {
			dropped = append(dropped, fmt.Sprintf("%d: %s", i+1, why))
			continue
		}
		room -= len(p.Data)
		pictures = append(pictures, p)
	}
	return pictures, dropped
}
