package app

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"

	"attend/internal/access"
	"attend/internal/config"
	"attend/internal/fields"
	dialguard "attend/internal/guard"
	"attend/internal/mcpserve"
	"attend/internal/mcpserve/webhook"
)

// webhooks is the delivery to receivers that subscribers have named.
type webhooks struct {
	service *webhook.Service
	feeds   webhook.Feeds
}

// buildWebhooks makes the service, nil where it is not wanted.
func (a *App) buildWebhooks() (*webhook.Service, error) {
	set := a.cfg.Webhook
	if !set.Enabled {
		return nil, nil //nolint:nilnil // there is none, which is no fault
	}
	roots, err := rootsWith(set.CAFile)
	if err != nil {
		return nil, err
	}
	client := dialguard.New(dialguard.Options{Allow: set.Allow, Roots: roots})
	a.cleanups.push("webhook connections", func(context.Context) error { client.Close(); return nil })
	return webhook.New(webhook.Options{
		Store:      a.store,
		Fence:      a.runner.Fence,
		Client:     client,
		Shared:     a.leases != nil,
		Durable:    a.cfg.Store.Kind != config.StoreMemory,
		SecretKey:  set.SecretKey.Reveal(),
		Receivers:  set.Receivers,
		Now:        a.store.Now,
		Logger:     a.log,
		Registerer: a.opt.Registry,
	})
}

// offered gives the service to MCP; none is nil there too.
func offered(service *webhook.Service) mcpserve.Webhooks {
	if service == nil {
		return nil
	}
	return service
}

// rootsWith returns the system's trusted certificates and those of a file; nil
// are the system's alone.
func rootsWith(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // nil has a meaning
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("webhook.caFile: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // a system that has none
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("webhook.caFile: %s holds no certificate in PEM", file)
	}
	return roots, nil
}

// principal finds what a principal may do now, for what is delivered while
// nobody calls.
func (a *App) principal(name string) (mcpserve.Caller, bool) {
	p := a.tokens.Named(name)
	if p == nil {
		return mcpserve.Caller{}, false
	}
	return callerFor(p), true
}

// callerFor gives a principal to MCP, which checks the rights of each method and
// tool itself.
func callerFor(p *access.Principal) mcpserve.Caller {
	return mcpserve.Caller{
		Name: p.Name, May: p.May, MayAll: p.MayAll, Revoked: p.Revoked(),
		Fields: fields.Access{MayField: p.MayField, MayAgent: p.SpeaksFor()},
	}
}

// startWebhooks starts the delivery.
func (a *App) startWebhooks() {
	if w := a.webhooks; w.service != nil {
		a.runUntilStopped("webhooks", func(ctx context.Context) error { return w.service.Run(ctx, w.feeds) })
	}
}
