SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Event file of `make demo` and `make bench`.
DATA ?= testdata/repo-history-12k.jsonl.gz
# Packages that the test targets run.
PACKAGES ?= ./...
# Of `make soak`: how long, the seed of the faults, fenced or dedupe, 1 or 3 brokers.
DURATION ?= 10m
SEED ?= 1
MODE ?= fenced
NODES ?= 3
# Flags of `make bench`, of which --data is set.
BENCH ?= --json bench.json --svg bench.svg
# Flags of `make bench/peers`.
PEERS ?=
# Of `make bench/monitor`: rows, seconds, another build of the program, a data directory that is filled once.
ROWS ?= 500000
MEASURE ?= 60
BINARY ?=
KEEP ?=
# File that the numbers of passed, failed and skipped tests are added to.
TOTALS ?=

GOLANGCI_VERSION := v2.15.0
GOLANGCI := bin/tools/golangci-lint-$(GOLANGCI_VERSION)
GOVULNCHECK_VERSION := v1.8.0
HELM_VERSION := v3.22.0
HELM := bin/tools/helm-$(HELM_VERSION)
# Its version is in deploy/tools/go.mod.
PROMTOOL := bin/tools/promtool
# What `make image` makes, and the version that its program gives itself.
IMAGE ?= postrider:devel
VERSION ?= devel

# -p 2: every package may start servers of its own.
TEST := go test -json -count=1 -shuffle=on -p 2
# The packages without the fault suite, which takes minutes and the whole machine, and without the tests of deploy/, which
# want tools.
OTHERS = $$(go list $(PACKAGES) | grep -Ev '/internal/(faults|deployment)$$')
# What is a module of its own, for the weight of what it needs. make test and its like run them unless PACKAGES is given.
MODULES = $(if $(filter ./...,$(PACKAGES)),examples/searchsync bench/peers)
REPORT := go run ./internal/testkit/testreport $(if $(TOTALS),-totals $(TOTALS))
# Packages that use the real PostgreSQL and NATS of the test kit.
INTEGRATION = $$(go list -tags containers -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' $(PACKAGES) | awk '/testkit\/(pgtest|natstest)/ && !/internal\/(faults|deployment) / { print $$1 }')

.PHONY: help
help: ## Show this help
	@awk 'BEGIN { FS = ":.*## " } /^[a-z\/-]+:.*## / { printf "%-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build ./bin/postrider, without cgo
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/postrider

.PHONY: test
test: postgres ## Run all tests that are not slow, without the fault suite and test/deploy (PACKAGES=./lease/... for some)
	CGO_ENABLED=0 $(TEST) -timeout 15m $(OTHERS) | $(REPORT)
	$(foreach m,$(MODULES),(cd $(m) && CGO_ENABLED=0 $(TEST) -timeout 10m ./...) | $(REPORT);)

.PHONY: test/race
test/race: postgres gcc ## Run the same tests with the race detector
	CGO_ENABLED=1 $(TEST) -race -timeout 25m $(OTHERS) | $(REPORT)
	$(foreach m,$(MODULES),(cd $(m) && CGO_ENABLED=1 $(TEST) -race -timeout 15m ./...) | $(REPORT);)

.PHONY: test/slow
test/slow: postgres ## Run the packages that have slow tests, with those
	@packages=$$(grep -rl --include='*_test.go' 'slow\.Test(' . | xargs -r -n 1 dirname | grep -v internal/faults | sort -u || true); \
	if [ -z "$$packages" ]; then echo "no slow tests"; exit 0; fi; \
	POSTRIDER_SLOW=1 CGO_ENABLED=0 $(TEST) -p 1 -timeout 40m $$packages | $(REPORT)
	$(foreach m,$(MODULES),(cd $(m) && POSTRIDER_SLOW=1 CGO_ENABLED=0 $(TEST) -timeout 10m ./...) | $(REPORT);)

.PHONY: test/faults
test/faults: postgres ## Run the fault suite in its short form (SLOW=1: on one broker and on three, and longer)
	$(if $(SLOW),POSTRIDER_SLOW=1) CGO_ENABLED=0 $(TEST) -timeout 60m ./internal/faults | $(REPORT)

.PHONY: soak
soak: postgres ## Random faults for DURATION=10m from SEED=1 (MODE=fenced|dedupe NODES=1|3)
	POSTRIDER_SOAK_DURATION=$(DURATION) POSTRIDER_SOAK_SEED=$(SEED) POSTRIDER_SOAK_MODE=$(MODE) POSTRIDER_SOAK_NODES=$(NODES) \
	CGO_ENABLED=0 go test -count=1 -timeout 0 -v -run '^TestSoak$$' ./internal/faults

.PHONY: test/containers
test/containers: postgres ## Run the integration tests on containers (needs a Docker engine)
	@if docker version >/dev/null 2>&1; then deploy/testimages/build.sh; \
	elif [ "$${POSTRIDER_REQUIRE_CONTAINERS:-}" = 1 ]; then echo "no Docker engine answers" >&2; exit 1; fi; \
	POSTRIDER_TEST_BACKEND=containers TESTCONTAINERS_RYUK_DISABLED=true CGO_ENABLED=0 \
	$(TEST) -tags containers -timeout 20m $(INTEGRATION) | $(REPORT) -least 1

.PHONY: test/browser
test/browser: postgres ## Run the monitor's tests in a real browser (needs Chromium)
	CI_BROWSER=1 CGO_ENABLED=0 $(TEST) -timeout 20m -run Browser ./ui/... | $(REPORT) -least 1

.PHONY: test/deploy
test/deploy: postgres $(HELM) $(PROMTOOL) ## Check what deploys Postrider: Compose file, Helm chart, unit, roles, alert rules, dashboard
	@command -v docker-compose >/dev/null || docker compose version >/dev/null 2>&1 || .ci/apt docker-compose
	@command -v pgbouncer >/dev/null || test -x /usr/sbin/pgbouncer || .ci/apt pgbouncer
	@command -v systemd-analyze >/dev/null || .ci/apt systemd
	POSTRIDER_HELM=$(CURDIR)/$(HELM) POSTRIDER_PROMTOOL=$(CURDIR)/$(PROMTOOL) POSTRIDER_REQUIRE_TOOLS=1 CGO_ENABLED=0 \
	$(TEST) -timeout 10m ./internal/deployment | $(REPORT) -least 1

.PHONY: bench
bench: postgres build ## Measure the relay beside a null relay with DATA (BENCH="--only drain --rounds 5"; docs/performance.md)
	./bin/postrider bench --data $(DATA) $(BENCH)

.PHONY: bench/peers
bench/peers: postgres build ## The same drain by other Go libraries (PEERS="-rounds 5"; bench/peers/doc.go)
	cd bench/peers && go run . -program $(CURDIR)/bin/postrider -data $(CURDIR)/$(DATA) $(PEERS)

.PHONY: bench/monitor
bench/monitor: postgres ## What ten tabs cost a database with ROWS=500000 waiting rows (MEASURE=60 BINARY=program KEEP=directory)
	POSTRIDER_BENCH_ROWS=$(ROWS) POSTRIDER_BENCH_SECONDS=$(MEASURE) POSTRIDER_BENCH_BINARY=$(BINARY) POSTRIDER_BENCH_DATA=$(KEEP) \
	CGO_ENABLED=0 go test -v -count=1 -timeout 60m -run '^$$' -bench '^BenchmarkMonitor$$' -benchtime 1x ./cmd/postrider

.PHONY: mutants
mutants: postgres ## Break the product in known ways: some test must notice each (RUN=regexp for some, STRESS=rows for the watermark's)
	CGO_ENABLED=0 go run ./internal/testkit/mutants $(if $(RUN),-run '$(RUN)') $(if $(STRESS),-stress $(STRESS))

.PHONY: lint
lint: $(GOLANGCI) ## Run golangci-lint at the pinned version
	$(GOLANGCI) run --build-tags containers ./...
	$(foreach m,$(MODULES),(cd $(m) && $(CURDIR)/$(GOLANGCI) run ./...);)
	$(GOLANGCI) fmt --diff ./...

.PHONY: fmt
fmt: $(GOLANGCI) ## Format the Go code as lint wants it
	$(GOLANGCI) fmt ./...

.PHONY: house
house: ## Check the house rules that no linter knows
	.ci/house
	go test -count=1 ./internal/house

.PHONY: gofmt
gofmt: ## Fail if a file is not formatted
	@files=$$(gofmt -l .); \
	if [ -n "$$files" ]; then echo "not formatted:"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## Run go vet with and without the containers tag
	go vet ./...
	go vet -tags containers ./...
	$(foreach m,$(MODULES),(cd $(m) && go vet ./...);)

.PHONY: verify
verify: gofmt vet house lint ## Run every check that is not a test

.PHONY: vulnerabilities
vulnerabilities: ## Look for known vulnerabilities that are reachable from our code
	go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./...
	$(foreach m,$(MODULES),(cd $(m) && go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./...);)

.PHONY: demo
demo: postgres build ## Import DATA and watch it being delivered (HEADLESS=1 ends when all of it is)
	./bin/postrider dev --import $(DATA) $(if $(HEADLESS),--exit-when-drained)

.PHONY: image
image: ## Build the container image IMAGE=postrider:devel around a program built here (VERSION=v1.2.3)
	VERSION=$(VERSION) deploy/docker/prebuilt.sh
	docker build --quiet --target prebuilt --file deploy/docker/Dockerfile --tag $(IMAGE) --build-arg VERSION=$(VERSION) \
		--build-arg REVISION=$$(git rev-parse HEAD 2>/dev/null || echo unknown) .

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin

# What the targets above need.

.PHONY: postgres
postgres:
	@.ci/postgres

.PHONY: gcc
gcc:
	@command -v "$$(go env CC)" >/dev/null || .ci/apt gcc libc6-dev

$(GOLANGCI):
	@mkdir -p bin/tools
	@if [ "$$($$(go env GOPATH)/bin/golangci-lint version --short 2>/dev/null)" = "$(GOLANGCI_VERSION:v%=%)" ]; then \
		cp "$$(go env GOPATH)/bin/golangci-lint" $@; \
	else \
		GOFLAGS= GOBIN=$(CURDIR)/bin/tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION); \
		mv bin/tools/golangci-lint $@; \
	fi

$(HELM):
	@mkdir -p bin/tools
	GOFLAGS= GOBIN=$(CURDIR)/bin/tools CGO_ENABLED=0 go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	@mv bin/tools/helm $@

# promtool cannot be installed by version: its go.mod replaces modules. Of its service discoveries DNS alone is left in.
$(PROMTOOL): deploy/tools/go.mod deploy/tools/go.sum
	@mkdir -p bin/tools
	GOFLAGS= GOWORK=off CGO_ENABLED=0 go -C deploy/tools build -trimpath -tags remove_all_sd,enable_dns_sd -o $(CURDIR)/$@ \
		github.com/prometheus/prometheus/cmd/promtool
