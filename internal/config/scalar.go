package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"
)

// scalar is a key with one value: in attend.yaml, as a variable and, where
// people type it daily, as a flag. A key with a dot stands inside a section:
// field.scoring is scoring under field.
type scalar struct {
	key      string
	fallback string
	usage    string // of the flag, with the value's name in backquotes; "" when it is no flag
	toggle   bool   // a flag without a value
	set      func(c *Config, text string) error
}

// variable is the name of the environment variable: actThreshold →
// ATTEND_ACT_THRESHOLD, field.scoring → ATTEND_FIELD_SCORING.
func (s scalar) variable() string { return "ATTEND_" + strings.ToUpper(s.split('_')) }

// flag is the name of the flag: actThreshold → act-threshold.
func (s scalar) flag() string { return s.split('-') }

// split parts the words of the key by the separator, in lower case.
func (s scalar) split(separator rune) string {
	var b strings.Builder
	for _, c := range s.key {
		switch {
		case c == '.':
			b.WriteRune(separator)
			continue
		case unicode.IsUpper(c):
			b.WriteRune(separator)
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// The two keys that say what else to read.
const (
	keyConfig = "config" // a flag and a variable, but no key of the file
	keyKinds  = "kinds"  // text, or in attend.yaml an object
)

// The sections that belong to the Field.
const (
	keyField   = "field"   // holds the scalars whose keys begin with it
	keyContext = "context" // what is fetched for a judge
)

// scalars is the one table of them, in the order in which attend.yaml
// explains them.
func scalars() []scalar {
	return []scalar{
		{key: "host", fallback: "127.0.0.1", usage: "`address` to listen on", set: setHost},
		{key: "port", fallback: "8787", usage: "`port` to listen on; 0 takes any free one", set: setPort},
		{key: "socket", usage: "`path` of a unix socket to listen on, in place of host and port", set: setSocket},
		{key: "token", set: setToken},
		{
			key: "allowRemoteWithoutToken", fallback: "false", toggle: true,
			usage: "let other machines in although no token is set",
			set: func(c *Config, text string) (err error) {
				if c.RemoteWithoutToken, err = strconv.ParseBool(text); err != nil {
					return fmt.Errorf("is %s: must be true or false", quote(text))
				}
				return nil
			},
		},
		{key: "allowedHosts", set: setHosts},
		{key: "allowedOrigins", set: setOrigins},
		{key: "store", fallback: "sqlite:attend.db", usage: "`store` of the log: memory, sqlite:<file> or postgres:<url>", set: setStore},
		{key: "noMigrate", fallback: "false", toggle: true, usage: "leave the tables in Postgres as they are", set: setNoMigrate},
		{key: "leaseMs", fallback: "10000", set: setLease},
		{key: "replica", set: setReplica},
		{key: "retention.eventsMs", fallback: "604800000", set: setSpan(func(c *Config) *time.Duration { return &c.Retention.Events })},
		{key: "retention.stepsMs", fallback: "2592000000", set: setSpan(func(c *Config) *time.Duration { return &c.Retention.Steps })},
		{key: "retention.everyMs", fallback: "60000", set: setRetentionEvery},
		{key: keyJudge, fallback: "rule", usage: "`judge` of settled windows: rule, rules, jev, decisions, anthropic, openai, gemini, chat, http, command"},
		{key: "judgeModel", usage: "`model` of the judge"},
		{key: "judgeUrl", usage: "`URL` of the judge: of a model the base, as https://host/v1; of jev and decisions taken as it stands"},
		{key: keyRules, usage: "`rules` of the judge rules: a YAML or JSON file, or inline JSON"},
		{key: "judgeRecord", fallback: "true", set: setJudgeRecord},
		{key: "judgeCalls", fallback: "64", set: setJudgeCalls},
		{key: keyKinds, usage: "`kinds` of events: a JSON or YAML file, or inline JSON as {\"message.created\": \"flush\"}"},
		{
			key: "actThreshold", usage: "the `share` of act over skip, in (0, 1], from which the agent is called; off when unset",
			set: func(c *Config, text string) (err error) {
				c.Settings.ActThreshold, err = parseThreshold(text)
				return err
			},
		},
		{key: "guidance", set: func(c *Config, text string) error {
			if len(text) > maxTextBytes {
				return fmt.Errorf("has %d bytes: may have at most %d", len(text), maxTextBytes)
			}
			c.Settings.Guidance = text
			return nil
		}},
		{key: "field.scoring", fallback: "graded", usage: "`scoring` of the Field: graded or reference", set: setFieldScoring},
		{key: "field.minIntentLength", fallback: "10", set: setFieldMinIntent},
		{key: "field.ingest", fallback: "false", set: setFieldIngest},
		{key: "field.pushEveryMs", fallback: "1000", set: setFieldPushEvery},
		{key: "webhook.enabled", fallback: "true", set: setWebhookEnabled},
		{key: "webhook.allow", set: setWebhookAllow},
		{key: "webhook.receivers", set: setWebhookReceivers},
		{key: "webhook.caFile", set: setWebhookCA},
		{key: "secretKey", set: setSecretKey},
		{key: "logLevel", fallback: "info", usage: "least `level` to log: debug, info, warn or error", set: setLogLevel},
		{key: "logFormat", fallback: "text", usage: "`format` of the log: text or json", set: setLogFormat},
		{key: "shutdownGraceMs", fallback: "10000", set: setShutdownGrace},
	}
}

// sections are the keys of attend.yaml that are no scalars.
func sections() []string {
	return []string{"policy", "scopes", "floor", "criteria", "predicates", keyRetention, keyField, keyWebhook, keyJudges, keyOverride, keyContext, keyCapture, keySources, keySilences, keyHooks, keySinks, keyDeadLetters, keyTokens}
}

// Flags adds the flags of the daemon to fs. [Load] reads them back.
func Flags(fs *pflag.FlagSet) {
	ConfigFlag(fs)
	for _, s := range scalars() {
		switch {
		case s.usage == "":
		case s.toggle:
			fs.Bool(s.flag(), false, s.usage)
		default:
			fs.String(s.flag(), s.fallback, s.usage)
		}
	}
}

// ConfigFlag adds --config alone, for commands that read the configuration and
// take nothing else from the command line.
func ConfigFlag(fs *pflag.FlagSet) {
	fs.StringP(keyConfig, "c", "", "read `file` (default attend.yaml, where there is one)")
}

// tried marks the flag --rules of a command that tries rules.
const tried = "attend-tried"

// TryRules says that --rules is there to be tried: where no configured judge
// takes the rules, and --judge names none, they are the judge.
func TryRules(fs *pflag.FlagSet) error {
	if err := fs.SetAnnotation(keyRules, tried, nil); err != nil {
		return fmt.Errorf("try rules: %w", err)
	}
	return nil
}

// rulesAlone reports that rules are to be tried, and no flag names a judge.
func rulesAlone(fs *pflag.FlagSet) bool {
	if fs == nil || !fs.Changed(keyRules) || fs.Changed(keyJudge) {
		return false
	}
	_, marked := fs.Lookup(keyRules).Annotations[tried]
	return marked
}

// parseThreshold reads actThreshold; off is 0, as the engine has it.
func parseThreshold(text string) (float64, error) {
	text = strings.TrimSpace(text)
	if text == "off" {
		return 0, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0 && v <= 1) {
		return 0, fmt.Errorf("is %s: must be in (0, 1], or off", quote(text))
	}
	return v, nil
}
