// Package webhook delivers events to receivers that subscribers have named
// (events contract, 6). It holds what was granted, asks receivers whether they
// agree, and posts what comes, signed, until it is taken or given up.
//
// A subscription is two rows of the store. What was granted is written by
// whichever daemon answers the subscriber; how far delivery has come is written
// by the one daemon that owns the subscription's shard, under its fence. So
// each has one writer, and neither loses what the other knows.
//
// Delivery holds no queue: a subscription is a place in a feed, and what has
// been read of it and not been taken yet, within bounds. After a kill it goes on
// from the place that was stored; what was posted and not noted is posted again.
package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
	"attend/internal/store"
)

// Store is what a Service needs of a store.
type Store interface {
	store.Rows
	Append(ctx context.Context, entries ...store.Entry) ([]store.Receipt, error)
}

// Options are what a Service is made of. Store, Fence, Client, Logger and
// Registerer are required.
type Options struct {
	Store  Store
	Fence  func(shard int) (store.Fence, bool) // the right to write what belongs to a shard
	Client Doer
	// Shared says that other replicas keep subscriptions in the same store.
	Shared bool
	// Durable says that the store survives a restart.
	Durable bool
	// SecretKey encrypts the secrets of subscribers in the store; "" leaves them
	// as they are.
	SecretKey string
	// Receivers are callbacks that need no asking: the beginning of a URL each,
	// as https://agents.example.com/hooks/.
	Receivers []string
	// MaxSubscriptions of one principal; 0 is 1,000.
	MaxSubscriptions int
	Now              func() time.Time // the store's clock; nil is time.Now
	NewID            func() string    // random, of URL-safe characters; nil draws one
	Logger           *slog.Logger
	Registerer       prometheus.Registerer
}

// Service keeps subscriptions and delivers them. It is safe for concurrent use.
type Service struct {
	opt     Options
	vault   *vault
	lanes   *lanes
	metrics *metrics
	log     *slog.Logger
	feeds   Feeds
	look    chan struct{} // something has changed

	mu       sync.Mutex
	grants   map[string]*grant
	workers  map[string]*worker
	busy     map[string]chan struct{} // keys that are being subscribed to
	change   string                   // the last change of other replicas that was read
	clear    bool                     // it was said that secrets are not encrypted
	troubled time.Time                // when trouble was last logged

	saves   chan struct{}
	saveMu  sync.Mutex
	unsaved map[*worker]struct{}
}

// New makes a Service. Nothing is delivered before Run.
func New(o Options) (*Service, error) {
	if o.Store == nil || o.Fence == nil || o.Client == nil || o.Logger == nil || o.Registerer == nil {
		return nil, errors.New("webhook: an option is missing")
	}
	o.MaxSubscriptions = cmp.Or(o.MaxSubscriptions, 1000)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = rand.Text
	}
	v, err := newVault(o.SecretKey)
	if err != nil {
		return nil, err
	}
	s := &Service{
		opt: o, vault: v, lanes: newLanes(), log: o.Logger, look: make(chan struct{}, 1),
		grants: make(map[string]*grant), workers: make(map[string]*worker), busy: make(map[string]chan struct{}),
		saves: make(chan struct{}, 1), unsaved: make(map[*worker]struct{}),
	}
	s.metrics, err = newMetrics(o.Registerer, s.states)
	return s, err
}

func (s *Service) now() engine.Time { return engine.Time(s.opt.Now().UnixMilli()) }

// lookEvery is how often ownership and what others have granted are looked at.
const lookEvery = time.Second

// Run delivers until the context ends. It must be called once.
func (s *Service) Run(ctx context.Context, feeds Feeds) error {
	s.feeds = feeds
	saved := make(chan struct{})
	saving, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(saved)
		s.save(saving)
	}()
	defer func() {
		s.stopAll()
		stop()
		<-saved
	}()
	loaded := false
	every := lookEvery / 20 // until the right to write is there
	for {
		if err := s.read(ctx, !loaded); err != nil {
			s.trouble(err)
		} else {
			loaded = true
			if s.share(ctx) {
				every = lookEvery
			}
		}
		t := time.NewTimer(every)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-s.look:
		case <-t.C:
		}
		t.Stop()
	}
}

func (s *Service) nudge() {
	select {
	case s.look <- struct{}{}:
	default:
	}
}

// keyChange is the row that tells replicas that grants have changed.
const keyChange = "change"

// read takes in what was granted: all of it at the start, and where replicas
// share the store whenever one of them has granted something.
func (s *Service) read(ctx context.Context, first bool) error {
	if !first && !s.opt.Shared {
		return nil
	}
	mark, err := s.opt.Store.Row(ctx, store.SpaceWebhook, keyChange)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Describe("read what webhooks were granted", err)
	}
	s.mu.Lock()
	same := string(mark) == s.change
	s.mu.Unlock()
	if same && !first {
		return nil
	}
	rows, err := s.opt.Store.Rows(ctx, store.SpaceWebhook)
	if err != nil {
		return store.Describe("read what webhooks were granted", err)
	}
	found := make(map[string]*grant, len(rows))
	for i := range rows {
		if !strings.HasPrefix(rows[i].Key, "sub_") {
			continue
		}
		g, err := decodeGrant(rows[i].Value)
		if err != nil {
			return err
		}
		found[g.ID] = g
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first {
		for id, g := range s.grants { //arch:sorted into a map
			found[id] = g // granted while this was being read
		}
		s.sayLocked(found)
	}
	s.grants, s.change = found, string(mark)
	return nil
}

// sayLocked tells the operator at the start which secrets cannot be read.
func (s *Service) sayLocked(grants map[string]*grant) {
	count := 0
	var why error
	for _, g := range grants { //arch:sorted one of the reasons will do
		if _, err := s.vault.open(g.ID, &g.Secret); err != nil {
			count, why = count+1, err
		}
	}
	if count > 0 {
		s.log.Error("webhook subscriptions are not delivered, for their secrets cannot be read: set the ATTEND_SECRET_KEY under which they were stored, or let their subscribers subscribe again",
			"subscriptions", count, "why", why)
	}
}

// trouble logs what is tried again, once in a while. What a stop broke off is
// no trouble: the next owner goes on from what is written.
func (s *Service) trouble(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	s.mu.Lock()
	now := time.Now()
	quiet := !s.troubled.IsZero() && now.Sub(s.troubled) < 10*time.Second
	if !quiet {
		s.troubled = now
	}
	s.mu.Unlock()
	if !quiet {
		s.log.Error("webhooks: will be tried again", "err", err)
	}
}

// states counts the subscriptions that are delivered here.
func (s *Service) states() map[string]int {
	of := make(map[string]int)
	now := s.now()
	for _, w := range s.all() {
		w.mu.Lock()
		switch {
		case w.locked != nil:
			of[stateLocked]++
		case !w.grant.live(now):
			of[stateLapsed]++
		case w.progress.suspends(w.grant):
			of[stateSuspended]++
		default:
			of[stateActive]++
		}
		w.mu.Unlock()
	}
	return of
}

func (s *Service) all() []*worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*worker, 0, len(s.workers))
	for _, w := range s.workers { //arch:sorted each by itself
		list = append(list, w)
	}
	return list
}

// append writes one entry, and gives its own error too.
func (s *Service) append(ctx context.Context, e store.Entry) error {
	receipts, err := s.opt.Store.Append(ctx, e)
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		return fmt.Errorf("write a webhook subscription: %w", err)
	}
	return nil
}
