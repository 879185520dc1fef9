package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// commonOptions are those that every type of judge takes.
func commonOptions() []string { return []string{"name", "type", "when"} }

// finish checks an entry as a whole, and finds its key.
func (l *loader) finish(d *draft) {
	host, readable := l.judgeURL(d.URL, d.spot("url"))
	kind, known := judgeKindOf(d.Type)
	if !known {
		return // that was said
	}
	if d.Name == "" {
		d.Name = string(d.Type)
	}
	for _, o := range judgeOptions() {
		if d.has(o.name) && !slices.Contains(kind.options, o.name) && !slices.Contains(commonOptions(), o.name) {
			l.fail(d.spot(o.name), "is no option of the judge %s, but of %s", d.Type, strings.Join(takers(o.name), ", "))
		}
	}
	for _, need := range kind.needs {
		if !d.has(need) {
			l.fail(d.spot("type"), "the judge %s needs a %s%s", d.Type, need, whereTo(d, need))
		}
	}
	l.checkModelTimeout(d)
	if readable {
		l.judgeKey(d, &kind, host)
	}
}

// whereTo says where a missing option is written.
func whereTo(d *draft, option string) string {
	switch {
	case strings.HasPrefix(d.at, keyJudges):
		return ": write it in the entry"
	case d.has("type"):
		return fmt.Sprintf(": write %s here", option)
	case option == "model":
		return ": set judgeModel, ATTEND_JUDGE_MODEL or --judge-model"
	case option == "url":
		return ": set judgeUrl, ATTEND_JUDGE_URL or --judge-url"
	default:
		return fmt.Sprintf(": write judge: {type: %s, %s: …} in attend.yaml", d.Type, option)
	}
}

// checkModelTimeout warns of a time that no call gets: the attempt ends before.
func (l *loader) checkModelTimeout(d *draft) {
	most := time.Duration(l.c.Settings.JudgeTimeoutMs) * time.Millisecond
	if d.Timeout > most {
		l.warn(d.spot("timeoutMs").place, WarnIgnored, "%s: is longer than judgeTimeoutMs (%d), at which the attempt ends", d.spot("timeoutMs").key, l.c.Settings.JudgeTimeoutMs)
	}
}

// judgeURL checks an address that the daemon calls, and returns its host, ""
// for none. It quotes nothing: an address may hold a secret.
func (l *loader) judgeURL(text string, at spot) (host string, ok bool) {
	if text == "" {
		return "", true
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		l.fail(at, "must be an address, as https://host/v1")
	case u.User != nil:
		l.fail(at, "must hold no name or password: a key is named by keyEnv")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		l.fail(at, "must end with the path: no ? and no #")
	default:
		if u.Scheme == "http" && !loopback(u.Hostname()) {
			l.warn(at.place, WarnPlainHTTP, "%swhat is judged goes over the network as plain text: use https", named(at.key))
		}
		return u.Hostname(), true
	}
	return "", false
}

// judgeKey finds the key that an entry sends: in the variable that it names,
// else in that of its type. A vendor's host answers nobody without one.
func (l *loader) judgeKey(d *draft, kind *judgeKind, host string) {
	d.keyVariable = kind.variable
	if d.keyEnv != "" {
		d.keyVariable = d.keyEnv
	}
	if d.keyVariable == "" || !slices.Contains(kind.options, "keyEnv") {
		return
	}
	d.Key = l.key(d.keyVariable)
	if d.Key == "" && l.keyless {
		d.Key = "not set"
	}
	vendor := hostOf(kind.host)
	switch {
	case d.Key != "" || d.has("keyEnv") && d.keyEnv == "": // the latter was said
	case d.keyEnv != "":
		l.fail(d.spot("keyEnv"), "names the variable %s, which is not set", d.keyEnv)
	case vendor != "" && (host == "" || host == vendor):
		l.fail(d.spot("type"), "the judge %s needs a key: set %s, or name the variable that holds it in keyEnv", d.Type, kind.variable)
	case host != "" && !loopback(host):
		l.warn(d.spot("url").place, WarnNoKey, "%s%s is called without a key, for %s is not set", named(d.spot("url").key), clip(host), kind.variable)
	}
}

// key returns the key in a variable, "" when there is none or it can be no key.
func (l *loader) key(variable string) Secret {
	text := strings.TrimSpace(l.env[variable])
	if err := checkToken(text); err != nil {
		l.mistakes = append(l.mistakes, Mistake{Place: Place{Source: variable}, Problem: err.Error()})
	}
	return Secret(text)
}

// named puts a key before what is said of it. A flag or variable, which has none,
// stands there already.
func named(key string) string {
	if key == "" {
		return ""
	}
	return key + ": "
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// checkJudgeNames refuses two entries of one name, and a name that misleads.
func (l *loader) checkJudgeNames(drafts []*draft) {
	first := make(map[string]spot)
	for _, d := range drafts {
		at := d.spot("name")
		if d.Name == "" {
			continue // it has no type either
		}
		if before, again := first[d.Name]; again {
			l.fail(at, "the name %s is given twice, first at %s: name each entry", quote(d.Name), before.place)
			continue
		}
		first[d.Name] = at
		if _, misleads := judgeKindOf(JudgeType(d.Name)); misleads && d.Name != string(d.Type) && d.Type != "" {
			l.fail(at, "%s is the name of a type, and the type is %s", quote(d.Name), d.Type)
		}
	}
}

// checkOrder looks at whom each entry passes on to.
func (l *loader) checkOrder(drafts []*draft) {
	var taken time.Duration // by the judges up to this one, where they hang
	for i, d := range drafts {
		if d.Type == "" {
			return // that was said, and who comes after whom is open
		}
		if i == len(drafts)-1 {
			l.checkLast(d)
			return
		}
		if d.When == "" && d.Below == 0 && !d.OnNext {
			l.fail(spot{drafts[i+1].Place, drafts[i+1].at}, "is never asked: %s before it answers every window; give that one a when, below or onError: next", quote(d.Name))
			return
		}
		if d.Type == JudgeRule || d.Type == JudgeRules {
			continue // it takes no time, and never fails
		}
		if !d.OnNext && !l.lettersTaken() {
			l.warn(d.Place, WarnNoLastResort, "%sa failure of %s ends as a dead letter in the log, and nobody is told, whoever stands behind it: give it onError: next, or name a handler in deadLetters", named(d.at), quote(d.Name))
		}
		if d.OnNext || d.Below > 0 {
			taken += d.Timeout
			l.checkShares(d, taken)
		}
	}
}

// checkShares warns where judges that hang take the time of those behind them.
func (l *loader) checkShares(d *draft, taken time.Duration) {
	most := time.Duration(l.c.Settings.JudgeTimeoutMs) * time.Millisecond
	if taken >= most && taken-d.Timeout < most && d.Timeout <= most { // else that was said
		l.warn(d.spot("timeoutMs").place, WarnIgnored, "%s: adds up to %d with those before it, and judgeTimeoutMs is %d: it is cut to leave a tenth of what is left to the judges behind it", d.spot("timeoutMs").key, taken.Milliseconds(), l.c.Settings.JudgeTimeoutMs)
	}
}

// checkLast looks at the entry after which nobody is asked.
func (l *loader) checkLast(d *draft) {
	for _, option := range []string{"when", "below", "onError"} {
		if d.has(option) {
			l.fail(d.spot(option), "nobody is asked after %s: leave %s out, or add a judge behind it, as {type: rule}", quote(d.Name), option)
		}
	}
	if d.Type != JudgeRule && d.Type != JudgeRules && !l.lettersTaken() {
		l.warn(d.Place, WarnNoLastResort, "%swhat %s cannot answer ends as a dead letter in the log, and nobody is told: put a {type: rule} last in judges, and onError: next before it, or name a handler in deadLetters", named(d.at), quote(d.Name))
	}
}

// lettersTaken reports whether anyone is told of dead letters.
func (l *loader) lettersTaken() bool { return l.c.DeadLetters != nil }

// finishHook checks a hook as a whole, and finds its key.
func (l *loader) finishHook(h *hookDraft) Hook {
	_, asked := h.where["http"]
	_, run := h.where["command"]
	if asked && run {
		l.fail(h.where["command"], "cannot stand beside http: leave one of them out")
	}
	for _, o := range []struct {
		option, of string
		there      bool
	}{{"keyEnv", "http", asked}, {"env", "command", run}} {
		if at, given := h.where[o.option]; given && !o.there {
			l.fail(at, "goes with %s, and there is none", o.of)
		}
	}
	if asked {
		l.judgeURL(h.URL, h.where["http"])
	}
	if h.keyEnv != "" && asked {
		if h.Key = l.key(h.keyEnv); h.Key == "" && !l.keyless {
			l.fail(h.where["keyEnv"], "names the variable %s, which is not set", h.keyEnv)
		}
	}
	return h.Hook
}
