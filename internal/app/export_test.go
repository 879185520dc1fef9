package app

import "github.com/go-chi/chi/v5"

// Routes are those of the app's server.
func (a *App) Routes() chi.Routes {
	return a.server.Handler.(chi.Routes) //nolint:forcetypeassert // newRouter made it
}

// RefuseNoKinds ends the start of a replica without kinds where others have some.
var RefuseNoKinds = refuseNoKinds

// Revoke ends the rights of a principal, as the end of its time does.
func (a *App) Revoke(name string) { a.tokens.Revoke(name) }
