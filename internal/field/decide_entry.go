package field

import "encoding/json"

// What happens to entries and drafts that are there. The first check that fails
// is told; their order is part of the protocol (docs/field.md, "Errors").

func (x *decider) draft() (*record, error) {
	id := x.in.value("draft_id")
	if id.kind != kindString || id.text == "" {
		return nil, x.in.bad("draft_id", DraftNotFound, "%s needs draft_id: the id that draft gave", x.in.op)
	}
	r, ok := x.s.drafts[id.text]
	if !ok {
		return nil, refuse(DraftNotFound, "%s: there is no draft %q: it was committed or discarded before, or never was", x.in.op, shortened(id.text))
	}
	return r, nil
}

func (x *decider) commit() (*Decision, error) {
	r, err := x.draft()
	if err != nil {
		return nil, err
	}
	if err := x.in.closed(); err != nil {
		return nil, err
	}
	c := &Change{Kind: KindCommitted, At: x.at, Epoch: x.ep, ID: r.id()}
	return &Decision{c, c.written()}, nil
}

func (x *decider) discard() (*Decision, error) {
	r, err := x.draft()
	if err != nil {
		return nil, err
	}
	intent, err := x.in.intent(intentOfDiscard, x.set.MinIntent)
	if err != nil {
		return nil, err
	}
	if _, err := x.in.nameIfGiven("agent", AgentRequired); err != nil {
		return nil, err
	}
	if err := x.in.closed(); err != nil {
		return nil, err
	}
	return &Decision{&Change{Kind: KindDiscarded, At: x.at, ID: r.id(), Intent: intent}, Done{}}, nil
}

// id reads the id of an entry; whether there is one is asked later.
func (x *decider) entryID(param string) (string, error) {
	v := x.in.value(param)
	if v.kind != kindString || v.text == "" {
		return "", x.in.bad(param, EntryNotFound, "%s needs %s: the id of an entry", x.in.op, param)
	}
	return v.text, nil
}

func (x *decider) retract() (*Decision, error) {
	id, err := x.entryID("id")
	if err != nil {
		return nil, err
	}
	agent, err := x.in.name("agent")
	if err != nil {
		return nil, err
	}
	intent, err := x.in.intent(intentOfAct, x.set.MinIntent)
	if err != nil {
		return nil, err
	}
	n, ok := x.s.byID[id]
	if !ok {
		return nil, refuse(EntryNotFound, "retract: there is no entry %q", shortened(id))
	}
	r := x.s.list.at(n)
	if r.agent == 0 || x.s.agents[r.agent].name != agent {
		return nil, refuse(RetractNotAuthorized, "only its author may retract entry %s: %q is not", id, shortened(agent))
	}
	if err := x.in.closed(); err != nil {
		return nil, err
	}
	if r.status != codeCommitted {
		return &Decision{Result: Done{}}, nil
	}
	return &Decision{&Change{Kind: KindRetracted, At: x.at, Epoch: x.ep, ID: id, Agent: agent, Intent: intent}, Done{}}, nil
}

func (x *decider) supersede() (*Decision, error) {
	id, err := x.entryID("superseding_id")
	if err != nil {
		return nil, err
	}
	payload, err := x.in.entry()
	if err != nil {
		return nil, err
	}
	agent, err := x.in.name("agent")
	if err != nil {
		return nil, err
	}
	intent, err := x.in.intent(intentOfAct, x.set.MinIntent)
	if err != nil {
		return nil, err
	}
	old, err := x.tail(id)
	if err != nil {
		return nil, err
	}
	if err := x.in.closed(); err != nil {
		return nil, err
	}
	if err := x.fresh(); err != nil {
		return nil, err
	}
	c := &Change{Kind: KindSuperseded, At: x.at, Epoch: x.ep, ID: x.id, Old: old.id(), Agent: agent, Intent: intent, Entry: json.RawMessage(payload)}
	return &Decision{c, c.written()}, nil
}

// tail returns the last of an entry's successors, or itself. It must stand.
func (x *decider) tail(id string) (*record, error) {
	n, ok := x.s.byID[id]
	if !ok {
		return nil, refuse(EntryNotFound, "supersede: there is no entry %q", shortened(id))
	}
	r := x.s.list.at(n)
	if r.chain != 0 {
		r = x.s.list.at(x.s.chains[r.chain])
	}
	if r.status != codeCommitted {
		return nil, refuse(EntryNotFound, "supersede: entry %s, the last that took the place of %s, is retracted", r.id(), id)
	}
	return r, nil
}

// capabilities reads register's list of texts; null is not left out.
func (in *input) capabilities() ([]string, error) {
	v := in.value("capabilities")
	if v.kind == kindNone {
		return nil, nil
	}
	bad := refuse(InvalidEntry, "capabilities of register are not an array of texts")
	var raw []json.RawMessage
	if v.kind != kindArray || json.Unmarshal([]byte(v.text), &raw) != nil {
		return nil, bad
	}
	if len(raw) > MaxCapabilities {
		return nil, refuse(InvalidEntry, "%d capabilities: at most %d", len(raw), MaxCapabilities)
	}
	var out []string
	for _, r := range raw {
		c := valueOf(string(r))
		switch {
		case c.kind != kindString:
			return nil, bad
		case half(string(r)):
			return nil, refuse(InvalidEntry, "a capability holds %s", halfPair)
		}
		if err := checkName("a capability", c.text, InvalidEntry); err != nil {
			return nil, err
		}
		out = append(out, c.text)
	}
	return out, nil
}
