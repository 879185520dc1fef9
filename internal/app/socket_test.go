package app_test

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attend/internal/app"
)

// socketIn names a socket in a folder that is not there yet. The path is short
// whatever the test's own name is.
func socketIn(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "attend") //nolint:usetesting // the address of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "run", "attend.sock")
}

func TestSocket_IsForItsOwnUserAlone(t *testing.T) {
	path := socketIn(t)
	d := run(t, nil, "--socket", path)
	d.ingest(`{"scope":"chat:1","id":"1","name":"message.created","text":"one"}`)
	if got, _ := d.next(""); got[0].Notice != "one" {
		t.Errorf("decisions %+v", got)
	}
	for name, want := range map[string]fs.FileMode{path: fs.ModeSocket | 0o600, filepath.Dir(path): fs.ModeDir | 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v, want %v (%v)", name, info.Mode(), want, err)
		}
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestSocket_ADeadOneIsReplacedAndALiveOneIsNot(t *testing.T) {
	path := socketIn(t)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	first := run(t, nil, "--socket", path)

	second, err := app.New(t.Context(), configure(t, nil, "--socket", path), app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "somebody listens on "+path+" already") {
		t.Errorf("a second daemon: %v", err)
	}
	first.ask(http.MethodGet, "/readyz", "").want(http.StatusOK, nil)
}

func TestSocket_RefusesPlacesThatAreNotSafe(t *testing.T) {
	start := func(path string) error {
		t.Helper()
		a, err := app.New(t.Context(), configure(t, nil, "--socket", path), app.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return errors.Join(a.Start(t.Context()), a.Stop(t.Context()))
	}
	path := socketIn(t)
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, says string
		prepare    func() error
	}{
		{"a folder that everyone may write to", "everyone may write in " + dir, func() error { return os.Chmod(dir, 0o777) }},
		{"the same with the sticky bit", "everyone may write in " + dir, func() error { return os.Chmod(dir, 0o777|fs.ModeSticky) }},
		{"a file that is no socket", "is no socket", func() error {
			return errors.Join(os.Chmod(dir, 0o700), os.WriteFile(path, []byte("precious"), 0o600))
		}},
		{"a file in place of the folder", "is no folder", func() error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		}},
	} {
		if err := c.prepare(); err != nil {
			t.Fatal(err)
		}
		if err := start(path); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.says)
		}
		if b, err := os.ReadFile(path); c.says == "is no socket" && string(b) != "precious" {
			t.Errorf("the file was touched: %q (%v)", b, err)
		}
	}
}

func TestSocket_Access(t *testing.T) {
	const token = "secret-of-sixteen-bytes"
	bare := func(r *http.Request) { r.Header.Del("Authorization") }
	for _, c := range []struct {
		name   string
		env    []string
		change []func(*http.Request)
		status int
	}{
		{"an administrator without a token", nil, nil, http.StatusNotFound},
		{"a Host of any name", nil, []func(*http.Request){host("whatever")}, http.StatusNotFound},
		{"a token that is set is asked for", []string{"ATTEND_TOKEN=" + token}, []func(*http.Request){bare}, http.StatusUnauthorized},
		{"and is enough", []string{"ATTEND_TOKEN=" + token}, nil, http.StatusNotFound},
		{"a page behind a proxy", nil, []func(*http.Request){host("ops.example.com"), header("Origin", "https://ops.example.com")}, http.StatusForbidden},
		{"a local page", nil, []func(*http.Request){header("Origin", "http://localhost:3000")}, http.StatusForbidden},
		{
			"a page that is named",
			[]string{"ATTEND_ALLOWED_ORIGINS=https://ops.example.com"},
			[]func(*http.Request){header("Origin", "https://ops.example.com")},
			http.StatusNotFound,
		},
		{"an image on a page", nil, []func(*http.Request){header("Sec-Fetch-Site", "cross-site")}, http.StatusForbidden},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := run(t, c.env, "--socket", socketIn(t))
			if r := d.ask(http.MethodDelete, "/v1/consumers/x", "", c.change...); r.status != c.status {
				t.Errorf("status %d, want %d: %s", r.status, c.status, r.body)
			}
		})
	}
}
