package fields_test

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"testing"

	"github.com/oklog/ulid/v2"

	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/store/memory"
)

// Whoever knows the id of a draft may commit it: ids of one millisecond do not
// follow each other.
func TestService_IDsCannotBeGuessed(t *testing.T) {
	bubble(t, func(t *testing.T, s *fields.Service, _ *memory.Store) {
		var last *big.Int
		for range 100 {
			id, err := ulid.ParseStrict(do[field.Drafted](t, s, "", field.OpDraft, note("kelp", "tide")).DraftID)
			if err != nil {
				t.Fatal(err)
			}
			drawn := new(big.Int).SetBytes(id.Entropy())
			if last != nil {
				apart := new(big.Int).Sub(drawn, last)
				if apart.Abs(apart).Cmp(big.NewInt(math.MaxUint32)) <= 0 {
					t.Fatalf("%s lies %v behind the one before", id, apart)
				}
			}
			last = drawn
		}
	})
}

// What a body over HTTP may hold is the Field's to judge by its parts.
func TestService_TakesAsMuchAsABody(t *testing.T) {
	bubble(t, func(t *testing.T, s *fields.Service, _ *memory.Store) {
		small := note("kelp", "tide")
		for _, c := range []struct {
			bytes int
			taken bool
		}{{1 << 20, true}, {1<<20 + 1, false}} {
			padded := append(bytes.Repeat([]byte(" "), c.bytes-len(small)), small...)
			_, err := s.Do(t.Context(), "", field.OpWrite, padded)
			var refused *field.Error
			if c.taken != (err == nil) || err != nil && !(errors.As(err, &refused) && refused.Code == field.InvalidEntry) {
				t.Errorf("%d bytes: %v", c.bytes, err)
			}
		}
	})
}
