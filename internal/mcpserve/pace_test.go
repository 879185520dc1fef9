package mcpserve

import (
	"testing"
	"time"
)

// crowd polls as it is told to for a while, and returns what it was told last,
// and how many polls it made in the last minute.
func crowd(p *pace, now *clock, clients int, long time.Duration) (every time.Duration, lastMinute int) {
	due := make([]time.Time, clients)
	for i := range due {
		due[i] = now.Now().Add(time.Duration(i) * time.Millisecond)
	}
	end := now.Now().Add(long)
	for now.Now().Before(end) {
		now.turn(time.Second)
		for i := range due {
			if !due[i].After(now.Now()) {
				every = p.next()
				due[i] = now.Now().Add(every)
				if end.Sub(now.Now()) < time.Minute {
					lastMinute++
				}
			}
		}
	}
	return every, lastMinute
}

func TestPace_ManyClientsPollMoreSeldom(t *testing.T) {
	for _, c := range []struct {
		clients     int
		least, most time.Duration
	}{
		{1, pollEvery, pollEvery},
		{100, pollEvery, pollEvery},
		{400, pollEvery, 2500 * time.Millisecond}, // as many as is right
		{2000, 8 * time.Second, 12 * time.Second},
		{12500, pollSeldom, pollSeldom},
	} {
		now := &clock{now: time.UnixMilli(1764547200000)}
		every, polls := crowd(newPace(now.Now), now, c.clients, 3*time.Minute)
		if every < c.least || every > c.most {
			t.Errorf("%d clients are told to poll every %s, want %s to %s", c.clients, every, c.least, c.most)
		}
		if rate := polls / 60; c.clients < 10000 && rate > pollsASecond*5/4 {
			t.Errorf("%d clients make %d polls a second", c.clients, rate)
		}
	}
}

func TestPace_IsQuickAgainWhenTheyHaveGone(t *testing.T) {
	now := &clock{now: time.UnixMilli(1764547200000)}
	p := newPace(now.Now)
	if every, _ := crowd(p, now, 4000, 2*time.Minute); every < 15*time.Second {
		t.Fatalf("4000 clients are told to poll every %s", every)
	}
	if every, _ := crowd(p, now, 3, 2*time.Minute); every != pollEvery {
		t.Errorf("3 clients are told to poll every %s", every)
	}
	crowd(p, now, 4000, time.Minute)
	now.turn(time.Hour)
	p.next()
	if every := p.next(); every != pollEvery {
		t.Errorf("after an hour without any: %s", every)
	}
}
