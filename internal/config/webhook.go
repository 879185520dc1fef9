package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// keyWebhook is the section that holds the scalars whose keys begin with it.
const keyWebhook = "webhook"

// Webhook says how events are posted to receivers that subscribers name.
type Webhook struct {
	Enabled bool
	// Allow are addresses that callbacks may lead to besides public ones.
	Allow []netip.Prefix
	// Receivers are callbacks that are not asked whether they agree: the
	// beginning of a URL each.
	Receivers []string
	// CAFile is a file of certificates that are trusted besides the system's, ""
	// for none. It is relative to the working directory.
	CAFile string
	// SecretKey encrypts the secrets of subscribers in the store; "" leaves them
	// as they are.
	SecretKey Secret
}

func setWebhookEnabled(c *Config, text string) (err error) {
	if c.Webhook.Enabled, err = strconv.ParseBool(text); err != nil {
		return fmt.Errorf("is %s: must be true or false", quote(text))
	}
	return nil
}

func setWebhookAllow(c *Config, text string) error {
	for _, word := range words(text) {
		p, err := netip.ParsePrefix(word)
		if err != nil {
			return fmt.Errorf("holds %s: must be a range of addresses, as 10.0.0.0/8 or fd00::/8", quote(word))
		}
		if p.Masked() != p {
			return fmt.Errorf("holds %s: the range is %s", quote(word), p.Masked())
		}
		c.Webhook.Allow = append(c.Webhook.Allow, p)
	}
	return nil
}

// warnWideAllow warns of exceptions that leave little of the rule: with 0.0.0.0/0
// whoever may subscribe can make the daemon call the machine that it runs on, the
// network around it and the metadata of a cloud.
func (l *loader) warnWideAllow() {
	for _, p := range l.c.Webhook.Allow {
		if wide(p) {
			l.c.Warnings = append(l.c.Warnings, Warning{
				l.value("webhook.allow").place, WarnWideAllow,
				fmt.Sprintf("webhook.allow: %s is larger than any private network: subscribers may have machines called that only the daemon reaches, perhaps its own; allow the ranges of your receivers alone", p),
			})
		}
	}
}

// wide says whether a range is larger than any private network. fd00::/8 and the
// fc00::/7 around it are one, however short their prefix is.
func wide(p netip.Prefix) bool {
	if p.Addr().Is4() {
		return p.Bits() < 8
	}
	local := netip.MustParsePrefix("fc00::/7")
	return p.Bits() < 16 && !(p.Bits() >= local.Bits() && local.Contains(p.Addr()))
}

func setWebhookReceivers(c *Config, text string) error {
	for _, word := range words(text) {
		u, err := url.Parse(word)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || strings.Contains(word, "#") {
			return fmt.Errorf("holds %s: must be the beginning of a callback, as https://agents.example.com/hooks/", quote(word))
		}
		c.Webhook.Receivers = append(c.Webhook.Receivers, word)
	}
	return nil
}

func setWebhookCA(c *Config, text string) error {
	c.Webhook.CAFile = text
	return nil
}

// minSecretKey is the fewest bytes that a key may have.
const minSecretKey = 16

func setSecretKey(c *Config, text string) error {
	if n := len(text); n > 0 && n < minSecretKey {
		return fmt.Errorf("has %d bytes: must have at least %d, as openssl rand -base64 32 makes them", n, minSecretKey)
	}
	c.Webhook.SecretKey = Secret(text)
	return nil
}
