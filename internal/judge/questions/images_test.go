package questions_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"attend/internal/judge"
	"attend/internal/judge/judgetest"
	"attend/internal/judge/questions"
)

// jevAssets are the references of the images that a request carries, which the
// host has checked against the state.
func jevAssets(t *testing.T, body []byte) map[string]struct{ Format string } {
	t.Helper()
	var r struct {
		Assets map[string]struct{ Format string } `json:"assets"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	return r.Assets
}

func TestJev_ImagesItTakes(t *testing.T) {
	for _, c := range []struct {
		name  string
		list  []judge.Image
		sent  int
		notes []string
	}{
		{"PNG and JPEG at the limits", []judge.Image{picture(t, "image/png", 280, 1568, 1), picture(t, "image/jpeg", 1568, 280, 2)}, 2, nil},
		{"one pixel under", []judge.Image{picture(t, "image/png", 279, 300, 1)}, 0, []string{"image 1 was left out: 279 × 300 pixels: each side has 280 to 1568"}},
		{"one pixel over", []judge.Image{picture(t, "image/png", 300, 1569, 1)}, 0, []string{"image 1 was left out: 300 × 1569 pixels"}},
		{"the good beside the bad", []judge.Image{{MIME: "image/png", Data: "no base64!"}, picture(t, "image/png", 300, 300, 1)}, 1, []string{"image 1 was left out: it is no base64"}},
		{"another format", []judge.Image{{MIME: "image/gif", Data: base64.StdEncoding.EncodeToString([]byte(gif))}}, 0, []string{"image/gif is not taken, PNG and JPEG are"}},
		{"a PNG that says it is a JPEG", []judge.Image{{MIME: "image/jpeg", Data: picture(t, "image/png", 300, 300, 1).Data}}, 0, []string{"is image/png"}},
		{"the same twice", []judge.Image{picture(t, "image/png", 300, 300, 1), picture(t, "image/png", 300, 300, 1)}, 1, []string{"image 2 was left out: it is the same as one before"}},
	} {
		h := judgetest.SystemOne(t, judgetest.Answer{Body: jevAnswer})
		in := window()
		in.Images = c.list
		reply, e := ask(t, made(t, questions.Options{API: questions.Jev}, h), in)
		if e != nil {
			t.Errorf("%s: %v", c.name, e)
			continue
		}
		x, asked := reply.Calls[0], h.Asked()[0]
		if n := len(jevAssets(t, asked.Body)); n != c.sent || len(x.Images) != c.sent {
			t.Errorf("%s: %d images sent, %d on the record, want %d", c.name, n, len(x.Images), c.sent)
		}
		for _, note := range c.notes {
			if !strings.Contains(x.Message, note) {
				t.Errorf("%s: the record says %q, want %q", c.name, x.Message, note)
			}
		}
		if c.notes == nil && x.Message != "" {
			t.Errorf("%s: the record says %q", c.name, x.Message)
		}
		if strings.Contains(x.Prompt, "data_base64") {
			t.Errorf("%s: images stand on the record", c.name)
		}
	}
}

const gif = "GIF89a\x2c\x01\x2c\x01\x00\x00\x00;"

func TestJev_ImageRequest(t *testing.T) {
	h := judgetest.SystemOne(t, judgetest.Answer{Body: jevAnswer})
	in := window()
	in.Images = []judge.Image{picture(t, "image/png", 300, 300, 1), picture(t, "image/jpeg", 300, 300, 2)}
	reply, e := ask(t, made(t, questions.Options{API: questions.Jev}, h), in)
	if e != nil {
		t.Fatal(e)
	}
	asked := h.Asked()[0]
	assets := jevAssets(t, asked.Body)
	var r struct {
		State struct{ Images []string } `json:"state"`
	}
	if err := json.Unmarshal(asked.Body, &r); err != nil {
		t.Fatal(err)
	}
	for i, format := range []string{"png", "jpeg"} {
		ref := reply.Calls[0].Images[i]
		if got := r.State.Images[i]; got != "img-"+ref.SHA256[:32] || assets[got].Format != format {
			t.Errorf("image %d is referenced as %s and is %+v", i, got, assets[got])
		}
	}
}

func TestDecisions_Images(t *testing.T) {
	odd := judge.Image{MIME: "image/webp", Data: base64.StdEncoding.EncodeToString([]byte("what no decoder knows"))}
	in := window()
	in.Images = []judge.Image{picture(t, "image/png", 10, 10, 1), {MIME: "image/png", Data: "!"}, odd}
	for i := range 140 {
		in.Images = append(in.Images, picture(t, "image/png", 1, 1, byte(i)))
	}
	h := judgetest.Decisions(t, judgetest.Answer{Body: decisionsAnswer})
	reply, e := ask(t, made(t, questions.Options{API: questions.Decisions}, h), in)
	if e != nil {
		t.Fatal(e)
	}
	var r struct {
		Input []struct {
			Content []struct {
				Type, Text string
				ImageURL   string `json:"image_url"`
			}
		} `json:"input"`
	}
	if err := json.Unmarshal(h.Asked()[0].Body, &r); err != nil {
		t.Fatal(err)
	}
	parts := r.Input[0].Content
	if len(parts) != 129 || parts[0].Type != "input_text" || parts[2].ImageURL != "data:image/webp;base64,"+odd.Data {
		t.Errorf("%d parts, the first %q, the third %q", len(parts), parts[0].Type, parts[2].ImageURL)
	}
	x := reply.Calls[0]
	if len(x.Images) != 128 || !strings.Contains(x.Message, "image 2 was left out: it is no base64") || !strings.Contains(x.Message, "128 are taken") || strings.Contains(x.Prompt, "data:image") {
		t.Errorf("the record says %d images and %q", len(x.Images), x.Message)
	}
}

func TestImages_NeverSentWhenTurnedOff(t *testing.T) {
	for _, api := range []questions.API{questions.Jev, questions.Decisions} {
		start, answer := judgetest.SystemOne, jevAnswer
		if api == questions.Decisions {
			start, answer = judgetest.Decisions, decisionsAnswer
		}
		h := start(t, judgetest.Answer{Body: answer})
		in := window()
		in.Images = []judge.Image{picture(t, "image/png", 300, 300, 1)}
		reply, e := ask(t, made(t, questions.Options{API: api, NoImages: true}, h), in)
		if e != nil || len(reply.Calls[0].Images) != 0 || strings.Contains(string(h.Asked()[0].Body), in.Images[0].Data) {
			t.Errorf("%s: %v, %d images on the record", api, e, len(reply.Calls[0].Images))
		}
	}
}

func TestImages_RejectedIsAskedOnceWithout(t *testing.T) {
	for _, api := range []questions.API{questions.Jev, questions.Decisions} {
		start, answer := judgetest.SystemOne, jevAnswer
		if api == questions.Decisions {
			start, answer = judgetest.Decisions, decisionsAnswer
		}
		for _, c := range []struct {
			status  int
			then    judgetest.Answer
			calls   int
			class   judge.Class // of the failure; "" for an answer
			outcome string      // of the last exchange
		}{
			{400, judgetest.Answer{Body: answer}, 2, "", "answered"},
			{413, judgetest.Answer{Body: answer}, 2, "", "answered"},
			{415, judgetest.Answer{Body: answer}, 2, "", "answered"},
			{422, judgetest.Answer{Body: answer}, 2, "", "answered"},
			{400, judgetest.Answer{Status: 400}, 2, judge.Permanent, "permanent"},
			{400, judgetest.Answer{Status: 529}, 2, judge.Transient, "error"},
			{401, judgetest.Answer{Body: answer}, 1, judge.Permanent, "permanent"},
			{500, judgetest.Answer{Body: answer}, 1, judge.Transient, "error"},
		} {
			name := fmt.Sprintf("%s, %d then %d", api, c.status, c.then.Status)
			h := start(t, judgetest.Answer{Status: c.status}, c.then)
			in := window()
			in.Images = []judge.Image{picture(t, "image/png", 300, 300, 1)}
			reply, e := ask(t, made(t, questions.Options{API: api}, h), in)
			calls := reply.Calls
			var class judge.Class
			if e != nil {
				calls, class = e.Calls, e.Class
			}
			if class != c.class || len(calls) != c.calls || len(h.Asked()) != c.calls || calls[len(calls)-1].Outcome != c.outcome {
				t.Errorf("%s: class %q after %d requests, and %+v on the record", name, class, len(h.Asked()), calls)
				continue
			}
			if c.calls == 2 && (len(calls[0].Images) != 1 || len(calls[1].Images) != 0 || !strings.Contains(calls[1].Message, fmt.Sprintf("without images, which the judge refused (status %d)", c.status))) {
				t.Errorf("%s: the record says %+v", name, calls)
			}
		}
		// Without images there is nothing to leave out.
		h := start(t, judgetest.Answer{Status: 400}, judgetest.Answer{Body: answer})
		if _, e := ask(t, made(t, questions.Options{API: api}, h), window()); e == nil || e.Class != judge.Permanent || len(h.Asked()) != 1 {
			t.Errorf("%s: a 400 without images: %v after %d requests", api, e, len(h.Asked()))
		}
	}
}
