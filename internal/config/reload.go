package config

import "fmt"

// part is a part of the configuration, as a reload looks at it.
type part struct {
	name string // a key of attend.yaml
	of   func(*Config) any
}

// applied are the parts that a reload puts in force.
func applied() []part {
	return []part{
		{keyKinds, func(c *Config) any { return c.Kinds.Map() }},
		{"policy", func(c *Config) any { return []any{c.Settings, c.Scopes} }},
		{keyJudges, func(c *Config) any { return c.Judges.Entries }},
		{"judgeRecord", func(c *Config) any { return c.Judges.Record }},
		{keyOverride, func(c *Config) any { return c.Judges.Overrides }},
		{keyContext, func(c *Config) any { return []any{c.Context, c.Judges.Context} }},
		{keyCapture, func(c *Config) any { return c.Judges.Capture }},
		{keyTokens, func(c *Config) any { return []any{c.Token, c.Tokens} }},
		{"allowRemoteWithoutToken", func(c *Config) any { return c.RemoteWithoutToken }},
		{keySources, func(c *Config) any { return c.Sources }},
		{keyHooks, func(c *Config) any { return c.Hooks }},
		{keySinks, func(c *Config) any { return c.Sinks }},
		{keyDeadLetters, func(c *Config) any { return c.DeadLetters }},
		{keySilences, func(c *Config) any { return c.Silences }},
	}
}

// started are the parts that count at the start alone.
func started() []part {
	return []part{
		{"host", func(c *Config) any { return c.Host }},
		{"port", func(c *Config) any { return c.Port }},
		{"socket", func(c *Config) any { return c.Socket }},
		{"allowedHosts", func(c *Config) any { return c.AllowedHosts }},
		{"allowedOrigins", func(c *Config) any { return c.AllowedOrigins }},
		{"store", func(c *Config) any { return c.Store }},
		{"leaseMs", func(c *Config) any { return c.Replicas.Lease }},
		{"replica", func(c *Config) any { return c.Replicas.Name }},
		{"noMigrate", func(c *Config) any { return c.Replicas.NoMigrate }},
		{"judgeCalls", func(c *Config) any { return c.Judges.Calls }},
		{keyRetention, func(c *Config) any { return c.Retention }},
		{keyField, func(c *Config) any { return c.Field }},
		{keyWebhook, func(c *Config) any {
			w := c.Webhook
			w.SecretKey = ""
			return w
		}},
		{"secretKey", func(c *Config) any { return c.Webhook.SecretKey }},
		{"logLevel", func(c *Config) any { return c.LogLevel }},
		{"logFormat", func(c *Config) any { return c.LogFormat }},
		{"shutdownGraceMs", func(c *Config) any { return c.ShutdownGrace }},
	}
}

// Changed names the parts that a reload puts in force and in which two
// configurations differ, in the order of the documentation.
func Changed(before, after *Config) []string { return differing(applied(), before, after) }

// NeedsRestart names the keys that count at the start alone and in which two
// configurations differ.
func NeedsRestart(before, after *Config) []string { return differing(started(), before, after) }

func differing(parts []part, before, after *Config) []string {
	names := []string{}
	for _, p := range parts {
		if !Same(p.of(before), p.of(after)) {
			names = append(names, p.name)
		}
	}
	return names
}

// WarnReload says what is legal in a configuration that takes the place of another
// and is probably not meant.
func (c *Config) WarnReload(before *Config) []Warning {
	if before.open() || !c.open() {
		return nil
	}
	return []Warning{{Code: WarnNoTokens, Message: "there were tokens, and there are none any more: whoever reaches the daemon may send and read without one"}}
}

// CheckReload refuses what is right by itself, and not in a daemon that goes on
// listening where it was started to. The error is [Mistakes].
func (c *Config) CheckReload(start *Config) error {
	listening := *c
	listening.Host, listening.Socket = start.Host, start.Socket
	if listening.exposed() && !listening.RemoteWithoutToken {
		return Mistakes{{Key: keyTokens, Problem: fmt.Sprintf(
			"there is none, and the daemon goes on listening at %s until it is started again, where other machines reach it: leave a token", start.Host)}}
	}
	return nil
}
