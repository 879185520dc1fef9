package config

import (
	"fmt"
	"strconv"
	"time"
)

// Retention says how long the log keeps what it holds. 0 is for ever.
type Retention struct {
	Events time.Duration // as they came, with their data
	Steps  time.Duration // decisions, and how they came about
	Every  time.Duration // how often what is too old is deleted
}

// keyRetention is the section that holds the scalars whose keys begin with it.
const keyRetention = "retention"

// setSpan reads a time to keep something.
func setSpan(of func(c *Config) *time.Duration) func(c *Config, text string) error {
	return func(c *Config, text string) error {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 0 || v > maxDurationMs {
			return fmt.Errorf("is %s: must be whole milliseconds from 0, which is for ever, to %d", quote(text), maxDurationMs)
		}
		*of(c) = time.Duration(v) * time.Millisecond
		return nil
	}
}

func setRetentionEvery(c *Config, text string) error {
	const least, most = 10, int64(24 * time.Hour / time.Millisecond)
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < least || v > most {
		return fmt.Errorf("is %s: must be whole milliseconds from %d to %d", quote(text), least, most)
	}
	c.Retention.Every = time.Duration(v) * time.Millisecond
	return nil
}

// checkRetention refuses steps that go before the events that they name, and
// warns of events that go before their windows settle.
func (l *loader) checkRetention() {
	r := l.c.Retention
	if r.Steps > 0 && (r.Events == 0 || r.Events > r.Steps) {
		v := l.value("retention.stepsMs")
		if v.place.Source == fromDefault {
			v = l.value("retention.eventsMs")
		}
		kept := "for ever"
		if r.Events > 0 {
			kept = fmt.Sprintf("for %d ms", r.Events.Milliseconds())
		}
		l.mistakes = append(l.mistakes, Mistake{
			v.place, v.key,
			fmt.Sprintf("events are kept %s and steps for %d ms: keep steps at least as long as events", kept, r.Steps.Milliseconds()),
		})
		return
	}
	longest := l.c.Settings.MaxWindowMs
	for i := range l.c.Scopes {
		longest = max(longest, l.c.Scopes[i].Settings.MaxWindowMs)
	}
	if v := l.value("retention.eventsMs"); r.Events > 0 && r.Events.Milliseconds() < longest {
		l.c.Warnings = append(l.c.Warnings, Warning{
			v.place, WarnShortRetention,
			fmt.Sprintf("retention.eventsMs: events are kept for %d ms, and a window may collect for %d ms (maxWindowMs): nothing is lost, but most events are moved before they are deleted", r.Events.Milliseconds(), longest),
		})
	}
}
