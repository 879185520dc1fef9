// Package field holds the rules of the Field: shared memory in which agents
// write what they know, are attuned to what is relevant to them, and reckon
// what contradicts what. It is pure: there is no clock, goroutine, IO or
// randomness here.
//
// # A Field is the fold of its changes
//
//	op, params ──Decide──▶ Decision{Change, Result}
//	                          │
//	                    (made durable)
//	                          ▼
//	                 State ◀─Apply── Change 1, 2, 3 …
//
// Decide looks at the state and changes nothing. What it decided stands whole
// in the Change, ids, epochs and timestamps included, so that Apply needs no
// deciding and the same changes give the same state everywhere. A Change is
// kept as a format number and a JSON body (Encode, DecodeChange).
//
// # Relevance
//
// Every entry that an agent may see has a score: the sum of what topic, role,
// recency and intent give it. Mode says by which table. Attune gives the best
// by score, then by epoch, exactly as if all had been scored and sorted. It
// finds them by walking blocks of entries from the newest to the oldest and
// passing over those that cannot reach the cut: see index and view.
package field
