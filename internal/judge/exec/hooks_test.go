package exec

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/judge"
)

func TestContext_AsksAboutAScope(t *testing.T) {
	const answer = `{"facts": {"midTurn": true}, "predicates": {"b": "B?", "a": "A?"}}` + "\n"
	host := serve(t, func(w http.ResponseWriter, r *http.Request, asked string) {
		if asked != `{"scope":"chat:\"1\""}` || r.Header.Get("Authorization") != "Bearer "+key {
			t.Errorf("asked %s with %q", asked, r.Header.Get("Authorization"))
		}
		_, _ = fmt.Fprint(w, answer)
	})
	want := judge.Context{Facts: []byte(`{"midTurn": true}`), Predicates: []engine.Predicate{{Name: "a", Question: "A?"}, {Name: "b", Question: "B?"}}}
	for name, e := range map[string]Endpoint{"http": host, "command": command(t, "say", answer)} {
		got, err := Context(e)(t.Context(), `chat:"1"`)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got\n%s", name, err, diff)
		}
	}
}

func TestContext_MayBringNothing(t *testing.T) {
	for _, text := range []string{`{}`, "null\n", `{"facts":null,"predicates":null}`, `{"predicates":{}}`} {
		got, err := parseContext([]byte(text))
		if diff := cmp.Diff(judge.Context{}, got); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got\n%s", text, err, diff)
		}
	}
}

func TestContext_SaysWhatIsWrong(t *testing.T) {
	many := strings.Repeat(`"x%d":"?",`, maxPredicates)
	numbers := make([]any, maxPredicates)
	for i := range numbers {
		numbers[i] = i
	}
	for text, says := range map[string]string{
		`{"fact":{}}`:                `the key "fact" besides facts and predicates`,
		`{"facts":[1]}`:              "the hook's facts: what it wrote is not one JSON object",
		`{"facts":"` + state + `"}`:  "the hook's facts: what it wrote is not one JSON object",
		`{"predicates":["asked?"]}`:  "not an object of questions",
		`{"predicates":{"a":1}}`:     "not an object of questions",
		`{"predicates":{"":"?"}}`:    "each needs a name",
		`{"predicates":{"a":""}}`:    "each needs a name",
		`{"predicates":{"a\n":"?"}}`: "each needs a name",
		`{"predicates":{"a":null}}`:  "each needs a name",
		`[]`:                         "the hook's answer is not one JSON object",
		fmt.Sprintf(`{"predicates":{`+many+`"last":"?"}}`, numbers...): "the hook asks 200 questions: may ask at most 199",
	} {
		_, err := parseContext([]byte(text))
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), state) {
			t.Errorf("%.60s: %v, want it to say %q", text, err, says)
		}
	}
}

func TestCapture_TakesOneImageOrMany(t *testing.T) {
	const image = `{"data":"` + pixel + `","mimeType":"image/gif"}`
	one := judge.Image{Data: pixel, MIME: "image/gif"}
	for text, want := range map[string][]judge.Image{
		image:                                  {one},
		`{"images":[` + image + `]}`:           {one},
		`[` + image + `,` + image + `]` + "\n": {one, one},
		"null\n":                               nil,
		`{}`:                                   nil,
		`{"images":null}`:                      nil,
		`{"data":"` + pixel[:20] + `\n` + pixel[20:] + `\r\n","mimeType":"image/gif"}`: {one},
	} {
		for name, e := range map[string]Endpoint{"http": says(t, text), "command": command(t, "say", text)} {
			got, err := Capture(e)(t.Context(), "chat:1")
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s, %s: %v, -want +got\n%s", name, text, err, diff)
			}
		}
	}
}

// gif returns a GIF of so many bytes: what follows its end is passed over.
func gif(t *testing.T, size int) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(pixel)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(append(b, make([]byte, size-len(b))...))
}

// The first images are kept, as many as may be, and what is left out is told.
func TestCapture_IsBounded(t *testing.T) {
	images := func(n, size int) []judge.Image {
		return slices.Repeat([]judge.Image{{Data: gif(t, size), MIME: "image/gif"}}, n)
	}
	most := images(maxImages, maxImageBytes/maxImages)
	if kept, err := check(most); err != nil || len(kept) != maxImages || maxImages*(len(most[0].Data)+len(`{"data":"","mimeType":"image/jpeg"}, `)) > maxCapture {
		t.Errorf("as much as may be: %d, %v", len(kept), err)
	}
	for _, c := range []struct {
		brought []judge.Image
		kept    int
		says    string
	}{
		{images(maxImages+2, 100), 128, "of 130 images the first 128 are taken: at most 128, of 33554432 bytes in all"},
		{images(2, maxImageBytes/2+1), 1, "of 2 images the first 1 are taken"},
	} {
		kept, err := check(c.brought)
		if len(kept) != c.kept || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d are kept, %v; want %d and %q", len(kept), err, c.kept, c.says)
		}
	}
}

func TestCapture_SaysWhatIsWrong(t *testing.T) {
	for text, says := range map[string]string{
		`"` + state + `"`:                    "none of",
		`{"images":{}}`:                      "none of",
		`{"images":[7]}`:                     "none of",
		`{"images":[null]}`:                  "the hook's image 1: ",
		`{"data":"","mimeType":"image/png"}`: "the hook's image 1: ",
		`{"data":"data:image/gif;base64,` + pixel + `","mimeType":"image/gif"}`:                             "the hook's image 1 has a data: prefix",
		`{"data":"` + state + `","mimeType":"image/gif"}`:                                                   "the hook's image 1: it is no base64",
		`{"data":"` + pixel + `"}`:                                                                          "the hook's image 1: ",
		`[{"data":"` + pixel + `","mimeType":"image/gif"},{"data":"` + pixel + `","mimeType":"image/png"}]`: "the hook's image 2: it says",
	} {
		_, err := parseImages([]byte(text))
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), state) || strings.Contains(err.Error(), pixel) {
			t.Errorf("%.60s: %v, want it to say %q", text, err, says)
		}
	}
}
