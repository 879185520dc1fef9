package questions

import (
	"fmt"

	"attend/internal/judge"
)

const (
	mimePNG  = "image/png"
	mimeJPEG = "image/jpeg"
)

// What Jev takes of images (seed, "Images"). It never resizes.
const (
	jevMinSide    = 280 // pixels
	jevMaxSide    = 1568
	jevMaxImage   = 16 << 20 // bytes of a file
	jevMaxRequest = 32 << 20 // bytes of all files
)

// jevImages keeps the images that Jev takes, and tells of the others.
func jevImages(list []judge.Image) (kept []judge.Picture, dropped []string) {
	return jevImagesOf(list, jevMaxImage, jevMaxRequest)
}

// jevImagesOf is jevImages for sizes of one file and of all, in bytes.
func jevImagesOf(list []judge.Image, most, mostInAll int) (kept []judge.Picture, dropped []string) {
	total := 0
	seen := map[string]bool{}
	for i := range list {
		p, err := judge.Look(list[i])
		switch {
		case err != nil:
			dropped = append(dropped, left(i, err.Error()))
		case p.MIME != mimePNG && p.MIME != mimeJPEG:
			dropped = append(dropped, left(i, fmt.Sprintf("%s is not taken, PNG and JPEG are", p.MIME)))
		case min(p.Width, p.Height) < jevMinSide || max(p.Width, p.Height) > jevMaxSide:
			dropped = append(dropped, left(i, fmt.Sprintf("%d × %d pixels: each side has %d to %d", p.Width, p.Height, jevMinSide, jevMaxSide)))
		case p.Bytes > most:
			dropped = append(dropped, left(i, fmt.Sprintf("%d bytes: %d are taken", p.Bytes, most)))
		case total+p.Bytes > mostInAll:
			dropped = append(dropped, left(i, fmt.Sprintf("with it all images have more than %d bytes", mostInAll)))
		case seen[p.SHA256]:
			dropped = append(dropped, left(i, "it is the same as one before"))
		default:
			seen[p.SHA256] = true
			total += p.Bytes
			kept = append(kept, p)
		}
	}
	return kept, dropped
}

// decisionsImages keeps as many as the API takes, of any format.
func decisionsImages(list []judge.Image) (kept []judge.Picture, dropped []string) {
	for i := range list {
		p, err := judge.Look(list[i])
		switch {
		case p.SHA256 == "": // no base64: nothing that could be an image
			dropped = append(dropped, left(i, err.Error()))
		case len(kept) == decisionsImageCount:
			dropped = append(dropped, left(i, fmt.Sprintf("%d are taken", decisionsImageCount)))
		default:
			kept = append(kept, p)
		}
	}
	return kept, dropped
}

func left(i int, why string) string { return fmt.Sprintf("image %d was left out: %s", i+1, why) }
