# Every target is a shorthand; what it runs can be typed as it stands.

GO    ?= go
SEEDS ?= 100000
FIRST ?= 1
PKG   ?= ./backends/sqlite
COUNT ?= 20

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## Index the Go standard library's source durably; kill it and run it again
	$(GO) run ./examples/index

.PHONY: test
test: ## Run the tests, as the README has it
	$(GO) test -short -p 4 -parallel 8 -timeout 20m -skip '^Test(Conformance|Model)$$/^(sizes|names|faults|durable|cost)$$|^TestMutants|^TestRestore|OnSqld$$' ./...

.PHONY: long
long: ## Run the long tests of the backends, too, and the large cases, one package at a time
	$(GO) test -p 1 -tags long -timeout 60m ./backends/...

.PHONY: deploys
deploys: ## Deploy random pairs of builds while runs are under way: 200 pairs in the simulation, 20 with processes that are killed
	$(GO) test -tags long -timeout 60m -run 'TestRollingDeploysOf200Pairs|TestProcessesOfTwoBuilds' -v ./conformance/internal/deploys

.PHONY: repeat
repeat: ## Repeat a package's tests under load until one fails (PKG=./backends/turso COUNT=20 LOAD=8)
	./.ci/repeat $(COUNT) $(PKG)

.PHONY: race
race: ## Run all tests with the race detector
	$(GO) test -race -gcflags='modernc.org/...=-race=false -d=checkptr=0' -timeout 40m ./...

.PHONY: lint
lint: ## Check format, vet, staticcheck, the import arrows, the public API and the length of functions
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted; run make fmt:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) test ./internal/testing/arrows ./internal/testing/publicapi ./internal/testing/funclen

.PHONY: bench
bench: ## Measure Pawl beside a hand-written loop (ARGS="-runs 5000 -reps 1" passes flags)
	cd bench && $(GO) run . $(ARGS)

.PHONY: chaos
chaos: ## Kill real processes, the database server and connections at random moments, and check what comes of it
	$(GO) run ./examples/index/chaos
	$(GO) test ./internal/testing/procs -run '^TestChaos$$' -count=1 -v -timeout 10m -procs.kills=100 -procs.stops=20 -procs.gap=300ms \
		-procs.restarts=15 -procs.terms=40 -procs.cuts=15 -procs.hangs=6 -procs.every=40
	$(GO) test ./internal/testing/procs -run '^TestChaos$$/^postgres$$' -count=1 -v -timeout 20m -procs.kills=200 -procs.stops=40 -procs.gap=300ms \
		-procs.restarts=0 -procs.crashes=20 -procs.terms=300 -procs.answers=500
	$(GO) test ./internal/testing/procs -run '^TestChaos$$/^postgres$$' -count=1 -v -timeout 20m -procs.runs=50000 -procs.kills=20 -procs.stops=0 \
		-procs.restarts=10 -procs.terms=50 -procs.cuts=10 -procs.hangs=5 -procs.every=300
	$(GO) test ./internal/testing/procs -run '^TestDrain$$' -count=1 -v -timeout 10m -procs.drains=50
	cd examples/reindex && $(GO) test . -run '^TestChaos$$' -count=1 -v -timeout 15m \
		-reindex.docs=50000 -reindex.batch=500 -reindex.rate=200 -reindex.kills=10

.PHONY: soak
soak: ## Run 100,000 seeds of the simulation on each store (SEEDS=n, FIRST=n select)
	$(GO) test ./conformance/internal/sim -run '^TestSimulation$$' -count=1 -v -timeout 6h -sim.seeds=$(SEEDS) -sim.first=$(FIRST)

.PHONY: mutants
mutants: ## Plant faults in the SQL backends and see the conformance suite find each of them, ten times
	$(GO) run ./internal/testing/mutation -backend sqlite
	$(GO) run ./internal/testing/mutation -backend sqlite-file
	$(GO) run ./internal/testing/mutation -backend postgres
	$(GO) run ./internal/testing/mutation -backend turso

REPORT = -tags long -timeout 60m -count=1 -run '^(TestConformance|TestEngine(OnSqld)?|TestRandom|TestLinearizable(OnSqld)?)$$' -conformance.report=$(CURDIR)/docs/reports
.PHONY: reports
reports: ## Run the conformance suite on each backend, and write the reports to docs/reports
	for b in postgres sqlite turso; do $(GO) test ./backends/$$b $(REPORT)/$$b.json || exit 1; done
	for b in bolt pebble; do (cd examples/backend && $(GO) test ./$$b $(REPORT)/$$b.json) || exit 1; done
	$(GO) generate ./conformance

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
