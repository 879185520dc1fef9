package api

import (
	"context"
	"net/http"

	"attend/internal/access"
	"attend/internal/feed"
)

// consumerList is the answer of GET /v1/consumers.
type consumerList struct {
	Consumers []feed.Consumer `json:"consumers"`
}

// listConsumers answers GET /v1/consumers, ordered by name: those that are the
// caller's to see.
func (a *API) listConsumers(w http.ResponseWriter, r *http.Request) error {
	if q := parseQuery(r); q.err != nil {
		return q.err
	}
	all, err := a.ownConsumers(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, consumerList{all})
}

// ownConsumers returns those that the caller may see, never nil.
func (a *API) ownConsumers(ctx context.Context) ([]feed.Consumer, error) {
	all, err := a.Consumers.List(ctx)
	if err != nil {
		return nil, err
	}
	caller := access.From(ctx)
	own := make([]feed.Consumer, 0, len(all))
	for i := range all {
		if caller.Owns(all[i].Owner) {
			own = append(own, all[i])
		}
	}
	return own, nil
}

// showConsumer answers GET /v1/consumers/{name}.
func (a *API) showConsumer(w http.ResponseWriter, r *http.Request) error {
	name, err := consumerName(r)
	if err != nil {
		return err
	}
	all, err := a.ownConsumers(r.Context())
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Name == name {
			return writeJSON(w, http.StatusOK, all[i])
		}
	}
	return unknown(feed.ErrNoConsumer, feed.ErrNoConsumer, "consumer", name)
}

// deleteConsumer answers DELETE /v1/consumers/{name}: its position is
// forgotten, its waiting call ends, and the next call under the name begins a
// new one.
func (a *API) deleteConsumer(w http.ResponseWriter, r *http.Request) error {
	name, err := consumerName(r)
	if err != nil {
		return err
	}
	if err := a.Consumers.Delete(r.Context(), name); err != nil {
		return unknown(err, feed.ErrNoConsumer, "consumer", name)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func consumerName(r *http.Request) (string, error) {
	if q := parseQuery(r); q.err != nil {
		return "", q.err
	}
	return segment(r)
}
