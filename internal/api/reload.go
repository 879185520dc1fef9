package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"attend/internal/problem"
)

// Reloaded is the answer to a reload. The lists are never null.
type Reloaded struct {
	Policy       uint32   `json:"policy"`       // the number of the policy in force
	Changed      []string `json:"changed"`      // parts of the configuration that are in force anew
	NeedsRestart []string `json:"needsRestart"` // keys that wait for the next start
	Warnings     []any    `json:"warnings"`     // of the configuration
}

// ReloadRefused is a reload that has changed nothing: there are mistakes in the
// configuration, or, without any, it cannot be loaded at all.
type ReloadRefused struct {
	Mistakes []any
	Why      string
}

// Error says in words what is wrong.
func (r *ReloadRefused) Error() string {
	if len(r.Mistakes) == 0 {
		return r.Why
	}
	return fmt.Sprintf("the configuration has %d mistakes, and nothing has changed", len(r.Mistakes))
}

// refusedReload is the problem with what is wrong.
type refusedReload struct {
	problem.Problem
	Mistakes []any `json:"mistakes"`
}

// reload answers POST /v1/reload.
func (a *API) reload(w http.ResponseWriter, r *http.Request) error {
	if q := parseQuery(r); q.err != nil {
		return q.err
	}
	done, err := a.Reload(r.Context())
	var refused *ReloadRefused
	switch {
	case errors.As(err, &refused) && len(refused.Mistakes) > 0:
		problem.Write(w, http.StatusUnprocessableEntity, refusedReload{
			problem.New(http.StatusUnprocessableEntity, codeConfig, refused.Error()), refused.Mistakes,
		})
		return nil
	case errors.As(err, &refused):
		return refuse(http.StatusConflict, codeNoReload, "%v", refused)
	case err != nil:
		return err
	}
	return writeJSON(w, http.StatusOK, done)
}

// Reloader puts the configuration in force as it now stands. The error is a
// *ReloadRefused where the caller is told why.
type Reloader func(ctx context.Context) (*Reloaded, error)
