package mcpserve

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/mcpserve/webhook"
)

// Webhooks keep the subscriptions whose events are posted, as *webhook.Service
// does.
type Webhooks interface {
	Subscribe(ctx context.Context, r webhook.Request) (*webhook.Granted, error)
	Unsubscribe(ctx context.Context, k webhook.Key) error
}

// modeWebhook is how this way of delivery is called.
const modeWebhook = "webhook"

// delivery is where and how a subscriber wants its events posted.
type delivery struct {
	Mode   *string `json:"mode"`
	URL    string  `json:"url"`
	Secret string  `json:"secret"`
}

// subscribeEvents answers events/subscribe.
func (s *Server) subscribeEvents(ctx context.Context, params map[string]json.RawMessage, caller *Caller) (map[string]any, *jsonrpc.Error) {
	to, bad := s.delivered(params, s.shapes.subscribe, caller)
	if bad != nil {
		return nil, bad
	}
	sub, bad := s.subscription("events/subscribe", params, s.shapes.subscribe, caller)
	if bad != nil {
		return nil, bad
	}
	ttl, fault := lifetime(params)
	if fault != nil {
		return nil, invalidParams(fault.path, fault.reason)
	}
	sub.live = true // it says where it begins before anything is read
	from, bad := sub.open(ctx)
	if bad != nil {
		return nil, bad
	}
	request := webhook.Request{
		Key:    webhook.Key{Principal: caller.Name, URL: to.URL, Name: sub.kind.name, Arguments: params["arguments"]},
		Secret: to.Secret, TTL: ttl, Start: from.cursor(), Truncated: from.late(),
	}
	from.close()
	granted, err := s.opts.Webhooks.Subscribe(ctx, request)
	if err != nil {
		return nil, s.webhookError(ctx, "events/subscribe", err)
	}
	result := map[string]any{
		"id": granted.ID, "refreshBefore": instant(granted.RefreshBefore), "cursor": granted.Cursor, "truncated": granted.Truncated,
	}
	if granted.Status != nil {
		result["deliveryStatus"] = deliveryStatus(granted.Status)
	}
	return result, nil
}

// unsubscribeEvents answers events/unsubscribe.
func (s *Server) unsubscribeEvents(ctx context.Context, params map[string]json.RawMessage, caller *Caller) (map[string]any, *jsonrpc.Error) {
	to, bad := s.delivered(params, s.shapes.unsubscribe, caller)
	if bad != nil {
		return nil, bad
	}
	kind, bad := s.named(params)
	if bad != nil {
		return nil, bad
	}
	key := webhook.Key{Principal: caller.Name, URL: to.URL, Name: kind.name, Arguments: params["arguments"]}
	if err := s.opts.Webhooks.Unsubscribe(ctx, key); err != nil {
		return nil, s.webhookError(ctx, "events/unsubscribe", err)
	}
	return map[string]any{}, nil
}

// delivered checks whether webhooks are offered, and to the caller, and reads
// where to.
func (s *Server) delivered(params map[string]json.RawMessage, shape *shape, caller *Caller) (*delivery, *jsonrpc.Error) {
	if _, bad := s.named(params); bad != nil {
		return nil, bad
	}
	if s.opts.Webhooks == nil {
		return nil, unsupportedDelivery(modeWebhook)
	}
	if caller.Name == "" {
		return nil, forbidden("principal", "delivery by webhook needs a token: a subscription belongs to somebody, and this daemon knows nobody")
	}
	if bad := shape.check(params); bad != nil {
		return nil, invalidParams(bad.path, bad.reason)
	}
	var to delivery
	if bad := member(params, "delivery", &to); bad != nil {
		return nil, invalidParams(bad.path, bad.reason)
	}
	if to.Mode != nil && *to.Mode != modeWebhook {
		return nil, unsupportedDelivery(*to.Mode)
	}
	return &to, nil
}

// unsupportedDelivery answers for a mode of delivery that is not offered.
func unsupportedDelivery(mode string) *jsonrpc.Error {
	return rpcError(codeUnsupported, map[string]any{"feature": "delivery", "value": mode},
		"delivery by %s is not offered: use events/stream, events/poll, or the tool attend_wait", mode)
}

// lifetime reads for how long a subscriber asks: null is for ever, and nothing
// leaves it to us.
func lifetime(params map[string]json.RawMessage) (webhook.TTL, *fault) {
	raw, given := params["ttlMs"]
	if given && string(raw) == "null" {
		return webhook.TTL{Never: true}, nil
	}
	var ms int64
	if bad := member(params, "ttlMs", &ms); bad != nil {
		return webhook.TTL{}, bad
	}
	const most = int64(24 * time.Hour / time.Millisecond) // what is asked beyond it is not granted
	return webhook.TTL{For: time.Duration(min(ms, most)) * time.Millisecond}, nil
}

// instant writes an instant, or null where there is none.
func instant(t engine.Time) any {
	if t == 0 {
		return nil
	}
	return timestamp(t)
}

func deliveryStatus(status *webhook.Status) map[string]any {
	shown := map[string]any{
		"active": status.Active, "lastDeliveryAt": instant(status.LastDelivery), "lastError": nil,
		"failedSince": instant(status.FailedSince), "throttled": status.Throttled, "retryAfterMs": nil,
	}
	if status.LastError != "" {
		shown["lastError"] = status.LastError
	}
	if status.RetryAfter > 0 {
		shown["retryAfterMs"] = status.RetryAfter.Milliseconds()
	}
	return shown
}

// webhookError tells what is wrong with what a subscriber asks for.
func (s *Server) webhookError(ctx context.Context, method string, err error) *jsonrpc.Error {
	var (
		invalid  *webhook.InvalidError
		callback *webhook.CallbackError
		limit    *feed.LimitError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Address:
		return rpcError(jsonrpc.CodeInvalidParams, map[string]any{"path": invalid.Path, "reason": invalid.Reason},
			"%s: the callback leads to an address that is not allowed", invalid.Path)
	case errors.As(err, &invalid):
		return invalidParams(invalid.Path, invalid.Reason)
	case errors.As(err, &callback):
		return rpcError(codeCallbackEndpoint, map[string]any{"reason": callback.Reason}, "%s", callback.Error())
	case errors.As(err, &limit):
		return exhausted(err)
	case errors.Is(err, webhook.ErrNotFound):
		return rpcError(codeNotFound, map[string]any{"kind": "subscription"}, "there is no such subscription of yours: name, arguments and url must be those that it was made with")
	default:
		return s.internal(ctx, method, err)
	}
}
