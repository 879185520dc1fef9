package field

// A Field may hold a million entries, so each is kept small: one string for
// its texts, numbers for agents and topics.

type statusCode uint8

const (
	codeDraft statusCode = iota
	codeCommitted
	codeRetracted
	codeSuperseded
)

func (c statusCode) status() Status {
	switch c {
	case codeDraft:
		return StatusDraft
	case codeCommitted:
		return StatusCommitted
	case codeRetracted:
		return StatusRetracted
	default:
		return StatusSuperseded
	}
}

// record is an entry or draft as the state keeps it.
type record struct {
	text         string // id, intent, payload
	timestamp    int64
	epoch        int64
	agent        int32 // 0: nobody
	topic        int32 // 0: none that another entry could share
	supersedes   int32 // place in the list, plus 1; 0: none
	supersededBy int32
	chain        int32 // the line of successors that it stands in; 0: none
	idLen        uint16
	intentLen    uint16
	status       statusCode
	raw          uint8 // UTF-16 units of the intent, at most fullIntent
	trimmed      uint8 // the same without white space at its ends
}

func newRecord(id, intent, payload string) record {
	return record{
		text:      id + intent + payload,
		idLen:     uint16(len(id)),     //nolint:gosec // at most MaxName
		intentLen: uint16(len(intent)), //nolint:gosec // at most MaxIntent
		raw:       uint8(min(units(intent), fullIntent)),
		trimmed:   uint8(min(units(trim(intent)), fullIntent)),
	}
}

func (r *record) id() string      { return r.text[:r.idLen] }
func (r *record) intent() string  { return r.text[r.idLen : r.idLen+r.intentLen] }
func (r *record) payload() string { return r.text[int(r.idLen)+int(r.intentLen):] }

const pageSize = 1 << 12

// pages is a list that grows without moving what it holds, but for its last
// page: a pointer into it ends with the next append.
type pages struct {
	pages [][]record
	len   int
}

func (p *pages) at(n int32) *record { return &p.pages[n/pageSize][n%pageSize] }

func (p *pages) append(r record) int32 {
	n := p.len
	if n%pageSize == 0 {
		p.pages = append(p.pages, nil)
	}
	last := &p.pages[n/pageSize]
	if full := cap(*last); len(*last) == full { // append alone would grow it beyond the page
		*last = append(make([]record, 0, min(max(4, 2*full), pageSize)), *last...)
	}
	*last = append(*last, r)
	p.len++
	return int32(n) //nolint:gosec // two thousand million entries do not fit in memory
}
