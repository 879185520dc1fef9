package field

import (
	"crypto/sha256"
	"encoding/binary"
)

// Identity says whether a result has changed for whoever is told of changes:
// 8 bytes of a SHA-256.
type Identity [8]byte

// IdentityOfEntries stands for the entries, their order and their status. A
// score that moves by itself changes nothing.
func IdentityOfEntries(entries []Scored) Identity {
	parts := make([]string, 0, 2*len(entries))
	for i := range entries {
		parts = append(parts, entries[i].ID, string(entries[i].Status))
	}
	return identity(parts)
}

// IdentityOfConflicts stands for the conflicts: the pairs, their order, and
// what they are about.
func IdentityOfConflicts(conflicts []Conflict) Identity {
	var parts []string
	for _, c := range conflicts {
		parts = append(parts, c.A.ID, c.B.ID, "keys")
		parts = append(parts, c.Keys...)
		parts = append(parts, "paths")
		parts = append(parts, c.Paths...)
	}
	return identity(parts)
}

func identity(parts []string) Identity {
	var b []byte
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return Identity(sum[:8])
}
