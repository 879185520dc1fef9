package postgres_test

import (
	"context"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"attend/internal/store/postgres/pgtest"
)

// pooler stands between a store and a database as a pooler in transaction mode
// does: it has connections of its own to the server, and each transaction of a
// client goes through the next of them.
//
// With cut set it is a network that breaks: cut sees each message of the
// server's and ends the client's connection before it when it says so.
type pooler struct {
	t       *testing.T
	address string // of the server
	listen  net.Listener
	cut     func(pgproto3.BackendMessage) bool

	servers      chan *pgconn.HijackedConn
	transactions atomic.Int64
	running      sync.WaitGroup

	mu      sync.Mutex
	clients []net.Conn
}

// newPooler starts a pooler of n connections, and returns it and the URL to
// reach the database by.
func newPooler(t *testing.T, address string, n int, cut func(pgproto3.BackendMessage) bool) (*pooler, string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pooler{t: t, address: address, listen: l, cut: cut, servers: make(chan *pgconn.HijackedConn, n)}
	for range n {
		p.connect()
	}
	p.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.clients = append(p.clients, c)
			p.mu.Unlock()
			p.running.Go(func() { defer c.Close(); p.serve(c) })
		}
	})
	t.Cleanup(p.close)
	return p, pgtest.Set(t, address, func(u *url.URL) { u.Host = l.Addr().String() })
}

// connect puts a new connection to the server among those that are free.
func (p *pooler) connect() {
	ctx := context.Background()
	c, err := pgconn.Connect(ctx, p.address)
	if err != nil {
		p.t.Errorf("pooler: %v", err)
		return
	}
	h, err := c.Hijack()
	if err != nil {
		p.t.Errorf("pooler: %v", err)
		return
	}
	p.servers <- h
}

func (p *pooler) close() {
	_ = p.listen.Close()
	p.mu.Lock()
	for _, c := range p.clients {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
	for range len(p.servers) {
		_ = (<-p.servers).Conn.Close()
	}
}

// serve speaks with one client until either end breaks.
func (p *pooler) serve(c net.Conn) {
	client := pgproto3.NewBackend(c, c)
	if _, err := client.ReceiveStartupMessage(); err != nil {
		return
	}
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	client.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for client.Flush() == nil {
		first, err := client.Receive()
		if _, ended := first.(*pgproto3.Terminate); err != nil || ended {
			return
		}
		server := <-p.servers
		if !p.transaction(client, server, first) {
			// What was begun on the server ends with its connection.
			_ = server.Conn.Close()
			p.connect()
			return
		}
		p.servers <- server
	}
}

// transaction passes messages on until the server is out of a transaction;
// false when the connection is of no use any longer.
func (p *pooler) transaction(client *pgproto3.Backend, server *pgconn.HijackedConn, m pgproto3.FrontendMessage) bool {
	for ; ; m = next(client) {
		if m == nil {
			return false
		}
		server.Frontend.Send(m)
		switch m.(type) {
		case *pgproto3.Sync, *pgproto3.Query:
		default:
			continue
		}
		if server.Frontend.Flush() != nil {
			return false
		}
		for idle := false; !idle; {
			answer, err := server.Frontend.Receive()
			if err != nil || (p.cut != nil && p.cut(answer)) {
				return false
			}
			client.Send(answer)
			ready, ok := answer.(*pgproto3.ReadyForQuery)
			if !ok {
				continue
			}
			if client.Flush() != nil {
				return false
			}
			if idle = true; ready.TxStatus == 'I' {
				p.transactions.Add(1)
				return true
			}
		}
	}
}

// next is the client's next message, nil when it has gone.
func next(client *pgproto3.Backend) pgproto3.FrontendMessage {
	m, err := client.Receive()
	if err != nil {
		return nil
	}
	return m
}

// ask has a connection of the pooler answer a question with one value.
func ask(t *testing.T, h *pgconn.HijackedConn, sql string) (value string) {
	t.Helper()
	h.Frontend.Send(&pgproto3.Query{String: sql})
	if err := h.Frontend.Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := h.Frontend.Receive()
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *pgproto3.DataRow:
			value = string(m.Values[0])
		case *pgproto3.ReadyForQuery:
			return value
		}
	}
}
