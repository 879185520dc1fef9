package app

import "github.com/go-chi/chi/v5"

// Routes are those of the app's server.
func (a *App) Routes() chi.Routes {
	return a.server.Handler.(chi.Routes) //nolint:forcetypeassert // newRouter made it
}
