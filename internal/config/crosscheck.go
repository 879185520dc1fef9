package config

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"attend/internal/engine"
)

// crossCheck looks at what no single value shows. Kinds that could not be read
// whole are not warned of.
func (l *loader) crossCheck(kindsRead bool) {
	l.checkListeners()
	l.checkExposure()
	l.checkTokens()
	l.warnWorldReadable()
	l.warnSources()
	l.checkHooks()
	l.warnSinks()
	l.warnReplicas()
	l.checkRetention()
	l.warnWideAllow()
	if kindsRead {
		l.c.Warnings = append(l.c.Warnings, l.c.Kinds.warnings()...)
	}
	var patterns []string
	places := make(map[string]Place)
	for _, s := range l.c.Scopes {
		patterns = append(patterns, s.Pattern)
		places[s.Pattern] = s.Place
	}
	l.c.Warnings = append(l.c.Warnings, shadowWarnings(patterns, places)...)
}

// checkListeners refuses a host or port beside a socket: one of them would be
// ignored.
func (l *loader) checkListeners() {
	socket := l.value("socket")
	if socket.text == "" {
		return
	}
	for _, key := range []string{"host", "port"} {
		if v := l.value(key); v.place.Source != fromDefault {
			l.mistakes = append(l.mistakes, Mistake{
				v.place, v.key,
				fmt.Sprintf("cannot stand beside socket (%s): the daemon listens on a socket or on a port, so leave one of them out", socket.place),
			})
		}
	}
}

// open reports whether nobody needs a token.
func (c *Config) open() bool { return c.Token == "" && len(c.Tokens) == 0 }

// exposed reports whether other machines reach the daemon, without a token.
func (c *Config) exposed() bool {
	return c.Socket == "" && c.Host != "" && !loopback(c.Host) && c.open()
}

// checkExposure refuses to listen where other machines reach the daemon
// without a token, unless that was asked for in words.
func (l *loader) checkExposure() {
	if !l.c.exposed() {
		return
	}
	v := l.value("host")
	if l.c.RemoteWithoutToken {
		l.c.Warnings = append(l.c.Warnings, Warning{
			v.place, WarnRemoteOpen,
			fmt.Sprintf("other machines reach the daemon at %s and no token is set: whoever does may read every event and wake every agent", l.c.Host),
		})
		return
	}
	l.mistakes = append(l.mistakes, Mistake{
		v.place, v.key,
		fmt.Sprintf("is %s, which other machines reach, and no token is set: set ATTEND_TOKEN or tokens, or allowRemoteWithoutToken where something else guards the daemon", quote(l.c.Host)),
	})
}

// warnWorldReadable warns of a file that everyone may read and that holds a
// secret. Permission bits say nothing on Windows.
func (l *loader) warnWorldReadable() {
	l.warnSecret("token", l.value("token").place, "use ATTEND_TOKEN")
	l.warnSecret("secretKey", l.value("secretKey").place, "use ATTEND_SECRET_KEY")
	if i := slices.IndexFunc(l.c.Tokens, func(t Token) bool { return t.plain }); i >= 0 {
		l.warnSecret(keyTokens, l.c.Tokens[i].Place, "give the hash of each token")
	}
	if l.c.Store.Kind == StorePostgres && hasPassword(l.c.Store.Address.Reveal()) {
		l.warnSecret("store", l.value("store").place, "use ATTEND_STORE")
	}
}

func (l *loader) warnSecret(key string, at Place, instead string) {
	if at.Line == 0 || runtime.GOOS == "windows" {
		return
	}
	info, err := os.Stat(at.Source)
	if err == nil && info.Mode().Perm()&0o004 != 0 {
		l.c.Warnings = append(l.c.Warnings, Warning{
			at, WarnWorldReadable,
			fmt.Sprintf("%s: everyone may read this file (mode %04o): chmod 600, or %s", key, info.Mode().Perm(), instead),
		})
	}
}

// warnings says what the kinds as a whole will not do.
func (k Kinds) warnings() []Warning {
	at := Place{Source: k.Source}
	switch {
	case len(k.Entries) == 0:
		return []Warning{{at, WarnNoKinds, "no kinds are configured, so every event is a consequence and nothing can wake anyone"}}
	case !k.has(engine.Closing, engine.Flush, engine.Continuous, engine.Passive):
		return []Warning{{at, WarnNoActs, "every kind is consequence or context, so nothing can wake anyone"}}
	}
	var all []Warning
	if !k.has(engine.Flush) {
		all = append(all, Warning{at, WarnNoFlush, "no kind is flush, so nothing is judged the moment it arrives, and the judge rule never interrupts"})
	}
	var patterns []string
	places := make(map[string]Place)
	for _, e := range k.Entries {
		patterns = append(patterns, e.Pattern)
		places[e.Pattern] = e.Place
	}
	return append(all, shadowWarnings(patterns, places)...)
}

// shadowWarnings warns of each pattern that can never match.
func shadowWarnings(patterns []string, places map[string]Place) []Warning {
	var all []Warning
	by := shadowed(patterns)
	for _, p := range patterns {
		if q, ok := by[p]; ok {
			all = append(all, Warning{places[p], WarnShadowed, fmt.Sprintf("%s can never match: %s comes first and matches all of it", quote(p), quote(q))})
		}
	}
	return all
}

// list writes at most a few names.
func list(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
