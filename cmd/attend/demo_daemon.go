package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/pflag"

	"attend/internal/app"
	"attend/internal/config"
	"attend/internal/engine"
)

// demoDaemon is the daemon of a demonstration: in this process, on a free
// port, its log in a temporary folder that goes with it.
type demoDaemon struct {
	folder string
	url    string
	stop   context.CancelFunc
	ended  chan error
}

// startDemo starts a daemon with the kinds and settings given, as files would
// hold them, and returns when it listens.
func startDemo(ctx context.Context, kinds []byte, settings string) (d *demoDaemon, err error) {
	d = &demoDaemon{ended: make(chan error, 1)}
	if d.folder, err = os.MkdirTemp("", "attend-demo-"); err != nil {
		return nil, fmt.Errorf("make a folder for the demo: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(d.folder))
		}
	}()
	cfg, err := d.config(kinds, settings)
	if err != nil {
		return nil, err
	}
	ctx, d.stop = context.WithCancel(ctx)
	listening := make(chan net.Addr, 1)
	daemon, err := app.New(ctx, cfg, app.Options{
		Logger:    slog.New(slog.DiscardHandler),
		Listening: func(at net.Addr) { listening <- at },
	})
	if err != nil {
		d.stop()
		return nil, err
	}
	go func() { d.ended <- daemon.Run(ctx) }()
	select {
	case err := <-d.ended:
		d.stop()
		return nil, errors.Join(errors.New("the daemon did not start"), err)
	case at := <-listening:
		d.url = "http://" + at.String()
		return d, nil
	}
}

// end stops the daemon and removes what it wrote.
func (d *demoDaemon) end() error {
	d.stop()
	return errors.Join(<-d.ended, os.RemoveAll(d.folder))
}

func (d *demoDaemon) config(kinds []byte, settings string) (*config.Config, error) {
	kindsFile, file := filepath.Join(d.folder, "kinds.json"), filepath.Join(d.folder, "attend.yaml")
	if err := errors.Join(os.WriteFile(kindsFile, kinds, 0o600), os.WriteFile(file, []byte(settings), 0o600)); err != nil {
		return nil, err
	}
	flags := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	config.Flags(flags)
	err := flags.Parse([]string{"--config", file, "--kinds", kindsFile, "--port", "0", "--store", "sqlite:" + filepath.Join(d.folder, "attend.db")})
	if err != nil {
		return nil, err
	}
	return config.Load(flags, nil)
}

// demoAgent is an agent over MCP. It takes decisions as an agent in a loop
// does: each call brings the ack of the last answer.
type demoAgent struct {
	session *mcp.ClientSession
	ack     string
}

// connectDemo connects an agent; hear, unless nil, takes what streams bring.
func connectDemo(ctx context.Context, url string, hear func(method string, params json.RawMessage)) (*demoAgent, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "attend-demo", Version: "1"}, nil)
	if err := mcp.AddSendingCustomMethod[*streamParams, *streamResult](client, methodStream); err != nil {
		return nil, err
	}
	transport := &hearing{&mcp.StreamableClientTransport{Endpoint: url + "/mcp", DisableStandaloneSSE: true}, hear}
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return nil, fmt.Errorf("connect to /mcp: %w", err)
	}
	return &demoAgent{session: session}, nil
}

// call calls a tool and reads its structured answer.
func (a *demoAgent) call(ctx context.Context, tool string, args map[string]any, answer any) error {
	res, err := a.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	content, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	if res.IsError {
		return fmt.Errorf("%s: %s", tool, content)
	}
	if err := json.Unmarshal(content, answer); err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	return nil
}

func (a *demoAgent) wait(ctx context.Context, timeoutMs int64) ([]*engine.Decision, error) {
	args := map[string]any{"consumer": "demo", "timeoutMs": timeoutMs}
	if a.ack != "" {
		args["ack"] = a.ack
	}
	var answer struct {
		Decisions []*engine.Decision `json:"decisions"`
		Ack       *string            `json:"ack"`
	}
	if err := a.call(ctx, "attend_wait", args, &answer); err != nil {
		return nil, err
	}
	a.ack = ""
	if answer.Ack != nil {
		a.ack = *answer.Ack
	}
	return answer.Decisions, nil
}
