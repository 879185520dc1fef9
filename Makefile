# `make` shows what there is. Every check that a change must pass is a target
# here; .ci/run runs them all.

.DEFAULT_GOAL := help
.SHELLFLAGS := -ec
MAKEFLAGS += --no-builtin-rules

GO  ?= go
BIN := $(CURDIR)/bin

# Tools, pinned. A new version is a change like any other.
GOLANGCI_LINT_VERSION := 2.15.0
BENCHSTAT_VERSION     := v0.0.0-20260908200009-22c9c6c9d4da

# What people set: make crash KILLS=1000 STORE=postgres, make sim SEEDS=100000, make fuzz FUZZTIME=5m, ...
ARGS     ?=
KILLS    ?= 100
STORE    ?= sqlite
SEEDS    ?= 10000
SEED     ?= 0
FUZZTIME ?= 10s
MINUTES  ?= 15
LAWS     ?= 5000
BENCH    ?= .
COUNT    ?= 6
PKG      ?= ./...

# One set of flags for building, vetting, linting and testing, so that the big
# dependencies are compiled once with the race detector and once without.
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS 2>/dev/null) -trimpath)
STATIC := CGO_ENABLED=0
RACE   := CGO_ENABLED=1

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## Build, then watch a day of events become a few decisions (needs only Go)
	@$(BIN)/attend demo $(ARGS)

.PHONY: demo-field
demo-field: build ## Build, then watch a contradiction between two agents wake two others (needs only Go)
	@$(BIN)/attend demo field $(ARGS)

.PHONY: serve
serve: build ## Build, then run the daemon on 127.0.0.1:8787 (ARGS="--port 9000")
	$(BIN)/attend serve $(ARGS)

.PHONY: build
build: ## Build bin/attend: one static file, no C
	$(STATIC) $(GO) build -ldflags='-s -w' -o $(BIN)/attend ./cmd/attend

.PHONY: test
test: ## Vet, then run every test with the race detector, in random order
	@.ci/need curl cc postgres
	$(STATIC) $(GO) vet ./...
	$(RACE) $(GO) test -race -shuffle=on -timeout=15m $(PKG)
	$(STATIC) $(GO) test -count=1 -run='^TestLaw' -timeout=15m ./internal/engine -rapid.checks=$(LAWS)
	$(STATIC) $(GO) test -count=1 -run='^TestSeeds$$' -timeout=15m ./internal/sim
	$(STATIC) $(GO) test -count=1 -run='^TestServe_IdleMemory$$' ./cmd/attend
	@$(if $(filter ./...,$(PKG)),.ci/e2e)

.PHONY: soak
soak: ## Keep streams open for MINUTES, past every timeout there may be
	@.ci/need curl
	ATTEND_SOAK_MINUTES=$(MINUTES) $(GO) test -tags 'e2e soak' -run '^TestSoak$$' -count=1 -v -timeout=0 ./e2e

.PHONY: e2e
e2e: ## Real MCP clients from npm, Go's and curl, and the conformance tool, against the binary
	@.ci/e2e

.PHONY: crash
crash: ## Kill the daemon at random instants, KILLS times, and check the promise; STORE=postgres: three replicas
	@$(if $(filter postgres,$(STORE)),.ci/need postgres)
	ATTEND_CRASH_KILLS=$(KILLS) $(GO) test ./cmd/attend -run '$(if $(filter postgres,$(STORE)),^TestCrashReplicas$$,^TestCrash($$|Check|Webhooks$$|Sources$$|Sinks$$))' -count=1 -v -timeout=60m

.PHONY: sim
sim: ## Simulate SEEDS worlds with faults, and check the promise in each; SEED=n tells one
	$(STATIC) $(GO) test ./internal/sim -run '^TestSeeds$$' -count=1 -v -timeout=0 -sim.seeds=$(SEEDS) -sim.seed=$(SEED)

.PHONY: bench
bench: SHELL := bash
bench: .SHELLFLAGS := -eo pipefail -c
bench: $(BIN)/benchstat ## Run the benchmarks COUNT times (BENCH=name chooses); figures go to bin/bench.txt
	$(STATIC) $(GO) test -run='^$$' -bench='$(BENCH)' -benchmem -benchtime=1s -count=$(COUNT) -cpu=2 -timeout=60m $(PKG) | tee $(BIN)/bench.txt
	@$(BIN)/benchstat $(BIN)/bench.txt

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME
	@FUZZTIME=$(FUZZTIME) .ci/fuzz

.PHONY: lint
lint: tools ## Format, module file, golangci-lint
	@unformatted=$$(gofmt -l cmd internal); \
	if [ -n "$$unformatted" ]; then echo "not formatted (gofmt -w):"; echo "$$unformatted"; exit 1; fi
	$(GO) mod tidy -diff
	$(STATIC) $(BIN)/golangci-lint run

.PHONY: tools
tools:
	@if [ "$$($(BIN)/golangci-lint version --short 2>/dev/null)" != "$(GOLANGCI_LINT_VERSION)" ]; then \
		echo "installing golangci-lint $(GOLANGCI_LINT_VERSION) into bin (a few minutes, once)"; \
		$(STATIC) GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(GOLANGCI_LINT_VERSION); \
	fi

$(BIN)/benchstat:
	@$(STATIC) GOBIN=$(BIN) $(GO) install golang.org/x/perf/cmd/benchstat@$(BENCHSTAT_VERSION)

.PHONY: clean
clean: ## Remove what was built; the tools in bin stay
	rm -rf $(BIN)/attend $(BIN)/bench.txt dist
