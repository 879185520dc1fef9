package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
)

// Digest stands for an event id: the first 128 bits of its SHA-256. One digest
// serves dedup and derived ids, so windows have the same id in every store and
// in replay.
type Digest [16]byte

// DigestOf hashes an event id.
func DigestOf(id string) Digest {
	sum := sha256.Sum256([]byte(id))
	return Digest(sum[:16])
}

// MarshalText writes the digest in hex.
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText reads hex.
func (d *Digest) UnmarshalText(b []byte) error {
	if len(b) != 2*len(d) {
		return fmt.Errorf("digest of %d characters: want %d", len(b), 2*len(d))
	}
	_, err := hex.Decode(d[:], b)
	return err
}

// WindowID derives a window's id from its scope, its events' ids in order and
// the stamp of its first event, so that an alert id that recurs next week is a
// new decision. It is the decision's id too.
func WindowID(scope string, members Members) string {
	h := sha256.New()
	hashString(h, "window")
	hashString(h, scope)
	var first Time
	if len(members) > 0 {
		first = members[0].SeenAt
	}
	hashInt(h, int64(first))
	for i := range members {
		h.Write(members[i].Digest[:])
	}
	return short(h)
}

// DeadLetterID derives a dead letter's id from the window, the stage that gave
// up and the number of the dead letter for that window (1 is the first).
func DeadLetterID(window, stage string, number int) string {
	h := sha256.New()
	hashString(h, "deadLetter")
	hashString(h, window)
	hashString(h, stage)
	hashInt(h, int64(number))
	return short(h)
}

// Jitter derives the share in [0, 1) by which an attempt's backoff is
// lengthened, of its RetryJitter.
func Jitter(window string, attempt int) float64 {
	h := sha256.New()
	hashString(h, "jitter")
	hashString(h, window)
	hashInt(h, int64(attempt))
	return float64(binary.BigEndian.Uint64(h.Sum(nil))>>11) / (1 << 53)
}

// Shard returns the shard that a scope, or any other key, hashes to: 0 to
// Shards-1.
func Shard(key string) int {
	sum := sha256.Sum256([]byte(key))
	return int(sum[0])
}

func hashString(h hash.Hash, s string) {
	hashInt(h, int64(len(s)))
	h.Write([]byte(s))
}

func hashInt(h hash.Hash, n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n)) //nolint:gosec // two's complement on purpose
	h.Write(b[:])
}

func short(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:16]) }
