package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"attend/internal/access"
)

func TestToken_New(t *testing.T) {
	seen := make(map[string]bool)
	for range 3 {
		_, stdout, stderr := runMain(t, nil, "token", "new")
		m := regexp.MustCompile(`^token: (atk_[A-Za-z0-9_-]{43})\nhash:  (sha256:[0-9a-f]{64})\n$`).FindStringSubmatch(stdout)
		if m == nil || stderr != "" || access.SumOf(m[1]).Hash() != m[2] || seen[m[1]] {
			t.Fatalf("stdout %q, stderr %q", stdout, stderr)
		}
		seen[m[1]] = true
	}
	var pair struct{ Token, Hash string }
	_, stdout, _ := runMain(t, nil, "token", "new", "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &pair); err != nil || access.SumOf(pair.Token).Hash() != pair.Hash {
		t.Errorf("%v: %s", err, stdout)
	}
}

func TestToken_Hash(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	for _, c := range []struct{ in, stdout, stderr string }{
		{secret + "\n", "hash:  " + access.SumOf(secret).Hash() + "\n", ""},
		{"\t" + secret + "\r\n", "hash:  " + access.SumOf(secret).Hash() + "\n", ""},
		{"", "", "at least 16"},
		{"correct horse battery", "", "without blanks"},
		{"correct-horse", "", "has 13 bytes"},
		{strings.Repeat("correct-", 1000), "", "more than 4096"},
	} {
		var out, errs bytes.Buffer
		Main([]string{"token", "hash"}, strings.NewReader(c.in), &out, &errs, nil)
		if out.String() != c.stdout || (errs.String() == "") != (c.stderr == "") || !strings.Contains(errs.String(), c.stderr) {
			t.Errorf("%q: stdout %q, stderr %q", c.in, out.String(), errs.String())
		}
		if strings.Contains(errs.String(), "correct") {
			t.Errorf("the token is told: %s", errs.String())
		}
	}
	if code, _, stderr := runMain(t, nil, "token", "hash", secret); code != exitUsage || !strings.Contains(stderr, "takes no arguments") {
		t.Errorf("as an argument: %d %s", code, stderr)
	}
}
