package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Each function here reads one scalar from text. Its error says what is wrong
// and how to mend it; the caller adds where it stands and its key.

func setHost(c *Config, text string) error {
	host := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	switch _, err := netip.ParseAddr(host); {
	case err == nil:
	case strings.Contains(host, "://"):
		return fmt.Errorf("is %s: write the name or address alone, as 127.0.0.1", quote(text))
	case strings.Contains(host, ":"):
		return fmt.Errorf("is %s: the port goes into port", quote(text))
	case !isHostName(host):
		return fmt.Errorf("is %s: must be an address or a name, as 127.0.0.1", quote(text))
	}
	c.Host = host
	return nil
}

func isHostName(s string) bool {
	return s != "" && len(s) <= 253 && !strings.ContainsFunc(s, func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && c != '-' && c != '.' && c != '_'
	})
}

// loopback reports whether only this machine reaches a host.
func loopback(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

func setPort(c *Config, text string) error {
	v, err := strconv.Atoi(text)
	if strings.HasPrefix(text, "tcp://") {
		return fmt.Errorf("is %s, which Kubernetes sets for a Service named attend: set enableServiceLinks: false in the pod, or name the Service otherwise", quote(text))
	}
	if err != nil || v < 0 || v > 65535 {
		return fmt.Errorf("is %s: must be a port from 0 to 65535", quote(text))
	}
	c.Port = v
	return nil
}

// maxSocketBytes is what the address of a unix socket holds on every system.
const maxSocketBytes = 103

func setSocket(c *Config, text string) error {
	switch path, scheme := strings.CutPrefix(text, "unix:"); {
	case scheme:
		return fmt.Errorf("is %s: write the path alone, as %s", quote(text), clip(strings.TrimPrefix(path, "//")))
	case strings.HasPrefix(text, "@"):
		return fmt.Errorf("is %s: a socket without a file has no permissions, and everyone could connect: write a path, as run/attend.sock", quote(text))
	case strings.ContainsRune(text, 0) || strings.HasSuffix(text, "/"):
		return fmt.Errorf("is %s: must be the path of a file, as run/attend.sock", quote(text))
	case len(text) > maxSocketBytes:
		return fmt.Errorf("is a path of %d bytes: the address of a socket has room for %d", len(text), maxSocketBytes)
	}
	c.Socket = text
	return nil
}

// setToken must not quote the text.
func setToken(c *Config, text string) error {
	if err := checkToken(text); err != nil {
		return err
	}
	c.Token = Secret(text)
	return nil
}

// checkToken says why text can be no bearer token, without quoting it.
func checkToken(text string) error {
	switch {
	case len(text) > maxTokenBytes:
		return fmt.Errorf("has %d bytes: may have at most %d", len(text), maxTokenBytes)
	case strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }):
		return errors.New("must be printable ASCII without blanks, so that it can stand in a header")
	}
	return nil
}

// words splits a list in a variable.
func words(text string) []string {
	return slices.DeleteFunc(strings.FieldsFunc(text, func(c rune) bool { return c == ',' || unicode.IsSpace(c) }),
		func(s string) bool { return s == "" })
}

func setHosts(c *Config, text string) error {
	for _, word := range words(text) {
		u, err := url.Parse("//" + word)
		if err != nil || u.Host != word || u.Hostname() == "" || !isHostName(u.Hostname()) && !isAddress(u.Hostname()) {
			return fmt.Errorf("holds %s: must be a host, as attend.internal or attend.internal:8787", quote(word))
		}
		c.AllowedHosts = append(c.AllowedHosts, strings.ToLower(word))
	}
	return nil
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

func setOrigins(c *Config, text string) error {
	for _, word := range words(text) {
		u, err := url.Parse(word)
		if err != nil || u.Scheme == "" || u.Hostname() == "" || !strings.EqualFold(u.Scheme+"://"+u.Host, word) {
			return fmt.Errorf("holds %s: must be scheme and host, as https://ops.example.com", quote(word))
		}
		c.AllowedOrigins = append(c.AllowedOrigins, strings.ToLower(word))
	}
	return nil
}

// setStore quotes the scheme alone: a URL may hold a password.
func setStore(c *Config, text string) error {
	scheme, rest, found := strings.Cut(text, ":")
	switch {
	case text == "memory":
		c.Store = Store{Kind: StoreMemory}
		return nil
	case scheme == "sqlite" && (rest == "" || !found):
		return errors.New("names no file: write sqlite:attend.db")
	case scheme == "sqlite" && rest == ":memory:":
		return errors.New("is sqlite in memory: write memory")
	case scheme == "sqlite" && strings.HasPrefix(rest, "//"):
		return fmt.Errorf("is %s: write the path without //, as sqlite:%s", quote(text), strings.TrimPrefix(rest, "//"))
	case scheme == "sqlite" && strings.ContainsAny(rest, "?#%\x00"):
		return fmt.Errorf("is %s: ?, # and %% cannot stand in the file's name, and there are no options", quote(text))
	case scheme == "sqlite":
		c.Store = Store{Kind: StoreSQLite, File: rest}
		return nil
	case (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//"):
		return setPostgres(c, text)
	case scheme == "postgres" || scheme == "postgresql":
		return setPostgres(c, rest)
	case found:
		return fmt.Errorf("is of kind %s: must be memory, sqlite:<file> or postgres:<url>", quote(scheme))
	case strings.EqualFold(text, "memory"):
		return fmt.Errorf("is %s: write memory", quote(text))
	default:
		return fmt.Errorf("is %s: must be memory, sqlite:<file> or postgres:<url>; did you mean sqlite:%s?", quote(text), clip(text))
	}
}

func setJudgeRecord(c *Config, text string) (err error) {
	if c.Judges.Record, err = strconv.ParseBool(text); err != nil {
		return fmt.Errorf("is %s: must be true or false", quote(text))
	}
	return nil
}

func setJudgeCalls(c *Config, text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < 1 || v > maxConcurrency {
		return fmt.Errorf("is %s: must be a whole number from 1 to %d", quote(text), maxConcurrency)
	}
	c.Judges.Calls = v
	return nil
}

func setLogLevel(c *Config, text string) error {
	levels := []string{"debug", "info", "warn", "error"}
	if !slices.Contains(levels, text) {
		return fmt.Errorf("is %s: unknown level%s", quote(text), orList(text, levels))
	}
	return c.LogLevel.UnmarshalText([]byte(text))
}

func setLogFormat(c *Config, text string) error {
	formats := []string{"text", "json"}
	if !slices.Contains(formats, text) {
		return fmt.Errorf("is %s: unknown format%s", quote(text), orList(text, formats))
	}
	c.LogFormat = text
	return nil
}

func setShutdownGrace(c *Config, text string) error {
	const most = int64(time.Hour / time.Millisecond)
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 || v > most {
		return fmt.Errorf("is %s: must be whole milliseconds from 0 to %d", quote(text), most)
	}
	c.ShutdownGrace = time.Duration(v) * time.Millisecond
	return nil
}
