package fields

import "context"

// DraftAgent returns whose draft that is: "" where nobody is named. Without ok
// there is no such draft. Whoever lets callers speak for some agents alone asks
// it before a draft is committed or discarded: see Access.
//
// Errors are those of Do, but for the protocol's.
func (s *Service) DraftAgent(ctx context.Context, name, id string) (agent string, ok bool, err error) {
	if name == "" {
		name = defaultName
	}
	h, err := s.hold(name)
	if err != nil {
		return "", false, err
	}
	defer s.release(h)
	if err := h.current(ctx); err != nil {
		return "", false, err
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	draft, ok := h.state.Draft(id)
	return draft.Agent, ok, nil
}
