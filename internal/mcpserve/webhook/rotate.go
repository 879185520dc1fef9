package webhook

import (
	"slices"
	"time"

	"attend/internal/engine"
)

// How a secret gives way to the next (events contract, 6).
const (
	rotation  = 10 * time.Minute // how long one from before is signed with too
	maxFormer = 4                // of those, the latest
)

// rotate takes a secret. Those before are signed with too, each for a while, by
// who can read them.
func (s *Service) rotate(g *grant, secret []byte, now engine.Time) {
	s.reseal(g)
	before, err := s.vault.open(g.ID, &g.Secret)
	known := err == nil && len(before) > 0
	if known && string(before) == string(secret) {
		return // and the rotations that are under way go on
	}
	var list []former
	if known {
		list = append(list, former{s.vault.seal(g.ID, before), now + engine.Time(rotation.Milliseconds())})
	}
	for _, f := range g.Former {
		key, err := s.vault.open(g.ID, &f.Secret)
		if err == nil && now < f.Until && string(key) != string(secret) {
			list = append(list, f)
		}
	}
	g.Former = list[:min(len(list), maxFormer)]
	g.Secret = s.vault.seal(g.ID, secret)
}

// reseal encrypts what was stored as it is, where there is a key by now. It
// reports whether there was any such.
func (s *Service) reseal(g *grant) bool {
	changed := false
	if s.vault.lacks(&g.Secret) && len(g.Secret.Data) > 0 {
		g.Secret, changed = s.vault.seal(g.ID, g.Secret.Data), true
	}
	g.Former = slices.Clone(g.Former) // others read the grant that this is a copy of
	for i := range g.Former {
		if f := &g.Former[i]; s.vault.lacks(&f.Secret) {
			f.Secret, changed = s.vault.seal(g.ID, f.Secret.Data), true
		}
	}
	return changed
}

// signer is a key to sign with.
type signer struct {
	key   []byte
	until engine.Time // 0 for the present one
}

// signers are the keys of a grant, the present one first.
//
// Errors: errLocked, wrapped, where that cannot be read.
func (v *vault) signers(g *grant) ([]signer, error) {
	key, err := v.open(g.ID, &g.Secret)
	if err != nil {
		return nil, err
	}
	list := []signer{{key: key}}
	for i := range g.Former {
		f := &g.Former[i]
		if key, err := v.open(g.ID, &f.Secret); err == nil {
			list = append(list, signer{key, f.Until})
		}
	}
	return list, nil
}

// signing are the keys to sign with now. The caller holds mu.
func (w *worker) signing() [][]byte {
	now := w.s.now()
	var keys [][]byte
	for _, s := range w.signers {
		if s.until == 0 || now < s.until {
			keys = append(keys, s.key)
		}
	}
	return keys
}
