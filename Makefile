# Every target is a shorthand; what it runs can be typed as it stands.

GO    ?= go
SEEDS ?= 100000
FIRST ?= 1

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## Index the Go standard library's source durably; kill it and run it again
	$(GO) run ./examples/index

.PHONY: test
test: ## Run all tests
	$(GO) test ./...

.PHONY: race
race: ## Run all tests with the race detector
	$(GO) test -race -gcflags='modernc.org/...=-race=false -d=checkptr=0' -timeout 40m ./...

.PHONY: lint
lint: ## Check format, vet, staticcheck and the import arrows
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted; run make fmt:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) test ./internal/arrows

.PHONY: bench
bench: ## Measure Pawl beside a hand-written loop (ARGS="-runs 5000 -reps 1" passes flags)
	cd bench && $(GO) run . $(ARGS)

.PHONY: chaos
chaos: ## Kill real processes, the database server and connections at random moments, and check what comes of it
	$(GO) run ./examples/index/chaos
	$(GO) test ./internal/procs -run '^TestChaos$$' -count=1 -v -timeout 10m -procs.kills=100 -procs.stops=20 -procs.gap=300ms \
		-procs.restarts=15 -procs.terms=40 -procs.cuts=15 -procs.hangs=6 -procs.every=40
	$(GO) test ./internal/procs -run '^TestChaos$$/^postgres$$' -count=1 -v -timeout 20m -procs.kills=200 -procs.stops=40 -procs.gap=300ms \
		-procs.restarts=0 -procs.crashes=20 -procs.terms=300 -procs.answers=500
	$(GO) test ./internal/procs -run '^TestChaos$$/^postgres$$' -count=1 -v -timeout 20m -procs.runs=50000 -procs.kills=20 -procs.stops=0 \
		-procs.restarts=10 -procs.terms=50 -procs.cuts=10 -procs.hangs=5 -procs.every=300
	$(GO) test ./internal/procs -run '^TestDrain$$' -count=1 -v -timeout 10m -procs.drains=50
	cd examples/reindex && $(GO) test . -run '^TestChaos$$' -count=1 -v -timeout 15m \
		-reindex.docs=50000 -reindex.batch=500 -reindex.rate=200 -reindex.kills=10

.PHONY: soak
soak: ## Run 100,000 seeds of the simulation on each store (SEEDS=n, FIRST=n select)
	$(GO) test ./conformance/internal/sim -run '^TestSimulation$$' -count=1 -v -timeout 6h -sim.seeds=$(SEEDS) -sim.first=$(FIRST)

.PHONY: fmt
fmt: ## Format all Go files
	gofmt -w .

.PHONY: ci
ci: ## Run what the continuous integration runs
	./.ci/run

.PHONY: cover
cover: ## Show how much of each function the tests reach
	$(GO) test -coverpkg ./... -coverprofile cover.out ./...
	$(GO) tool cover -func cover.out
