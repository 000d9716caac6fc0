SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Everything is built alike, or the compiler does its work once for each way: without cgo, which the race detector alone needs.
export CGO_ENABLED := 0

# Event file of `make demo` and `make bench`.
DATA ?= testdata/repo-history-12k.jsonl.gz
# Packages that the test targets run, of the modules MODULES: all packages of all modules, or some of the root's. Those of
# another module by PACKAGES=./model MODULES=tools.
PACKAGES ?= ./...
MODULES ?= $(if $(filter ./...,$(PACKAGES)),. tools tools/peers examples examples/orms examples/searchsync,.)
# Of `make soak`, `soak/inbox` and `peers/faults`: how long, the seed of the faults; a stream that takes batches or none, 1 or 3 brokers; parts of
# relays' names, 3 or 1 accounts that a transaction changes.
DURATION ?= 10m
SEED ?= 1
BATCHES ?= 1
NODES ?= 3
RELAYS ?=
ACCOUNTS ?= 3
# Flags of `make bench`, of which --program and --data are set.
BENCH ?= --json bench.json --svg bench.svg
# Of `make bench/charts`: how often everything is measured; the report and the charts begin with CHARTS.
ROUNDS ?= 5
CHARTS := docs/images/benchmark
# Flags of `make bench/peers` and `make bench/peers/latency`.
PEERS ?=
# Of `make test/matrix`: set, the corners alone. Of `make test/rolling`: a tag or commit, see .ci/earlier.
SHORT ?=
FROM ?=
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
GOVULNCHECK := bin/tools/govulncheck-$(GOVULNCHECK_VERSION)
HELM_VERSION := v3.22.0
HELM := bin/tools/helm-$(HELM_VERSION)
CYCLONEDX_VERSION := v1.10.0
CYCLONEDX := bin/tools/cyclonedx-$(CYCLONEDX_VERSION)/cyclonedx-gomod
# The last release of which every module can be had by the proxy.
GORELEASER_VERSION := v2.16.0
GORELEASER := bin/tools/goreleaser-$(GORELEASER_VERSION)
# Docker finds it as a plugin below DOCKER_CONFIG. Without it no image is built for another platform than the engine's.
BUILDX_VERSION := v0.38.2
BUILDX := bin/tools/buildx-$(BUILDX_VERSION)/cli-plugins/docker-buildx
# What Compose reads files with.
COMPOSE_VERSION := v2.16.2
COMPOSE := bin/tools/compose-spec-$(COMPOSE_VERSION)
# The last release that builds with Go 1.26.
HUGO_VERSION := v0.165.0
HUGO := bin/tools/hugo-$(HUGO_VERSION)
# Their version is in deploy/tools/go.mod.
PROMTOOL := bin/tools/promtool
PROMETHEUS := bin/tools/prometheus
# What the recipes need, as Debian names it; a JDK and Node.js may also come from elsewhere.
RECIPES := python3-psycopg2 python3-psycopg libpostgresql-jdbc-java libgoogle-gson-java ruby-pg php-cli php-pgsql
RECIPES += $(if $(shell command -v javac),,default-jdk-headless) $(if $(shell command -v npm),,nodejs npm)
MODULES_OF_NODE := bin/tools/recipes/node_modules
# All modules at once: what looks at their sources reads once what they share.
WORKSPACE := $(CURDIR)/bin/tools/all.work
# Releases of PostgreSQL and nats-server. Whoever PostgreSQL runs as must be able to read them.
SERVERS := $(CURDIR)/bin/tools/servers
# What `make image` makes, and the version that its program gives itself; `make site` shows it, too.
IMAGE ?= postrider:devel
VERSION ?= devel
# Where `make site` is served; with the slash at its end.
SITE ?= https://postrider.github.io/postrider/

# -p 2: every package may start servers of its own. -parallel 3: tests mostly wait. `make vet` and `make lint` vet.
TEST := test -json -count=1 -shuffle=on -p 2 -parallel 3 -vet=off
# The module beside the product whose tests the race detector watches under RACE=1: examples that others start from.
RACED := examples
# A test that failed is run again alone, so often.
AGAIN ?= 3
TESTREPORT := bin/tools/testreport
REPORT := $(TESTREPORT) -again $(AGAIN) $(if $(TOTALS),-totals $(TOTALS))
# $(call each,COMMANDS) runs them for each module, whichever fail. They set failed=1 where they do.
each = failed=0; for module in $(MODULES); do $(1); done; exit $$failed
# $(call tested,KIND,SETTINGS,FLAGS,OF THE REPORT) tests the packages of a kind (.ci/packages) in $$module.
tested = packages=$$(.ci/packages $$module $(1) $(PACKAGES)) || failed=1; \
	[ -z "$$packages" ] || $(2) $(REPORT) $(4) -- go -C $$module $(TEST) $(3) -- $$packages || failed=1

.PHONY: help
help: ## Show this help
	@awk 'BEGIN { FS = ":.*## " } /^[a-z\/-]+:.*## / { printf "%-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build ./bin/postrider, without cgo
	go build -o bin/ ./cmd/postrider

.PHONY: test
test: postgres $(TESTREPORT) $(if $(RACE),gcc) ## Run all tests that are not slow, but for faults and deploy (PACKAGES=./lease/... for some, RACE=1)
	@$(MAKE) --no-print-directory --keep-going --jobs=2 test/product test/others

# Two lanes run side by side, as tests mostly wait: the product, or what the race detector watches of it, and all else.
raced = $(call tested,concurrent,CGO_ENABLED=1,-race -exec "env CGO_ENABLED=0" -timeout 35m -skip "$$(.ci/packages $$module processtests $(PACKAGES))")
unraced = $(call tested,sequential,,-timeout 35m); \
	$(call tested,processes,,-timeout 35m -run "$$(.ci/packages $$module processtests $(PACKAGES))")
all = $(call tested,all,,-timeout 35m)

.PHONY: test/product
test/product:
	@module=. failed=0; if [[ " $(MODULES) " == *" . "* ]]; then $(if $(RACE),$(raced),$(all)); fi; exit $$failed

.PHONY: test/others
test/others:
	@$(call each,if [ "$$module" = . ]; then $(if $(RACE),$(unraced),:); \
	elif [ "$(RACE) $$module" = "1 $(RACED)" ]; then $(raced); $(unraced); else $(all); fi)

.PHONY: test/slow
test/slow: postgres $(TESTREPORT) ## Run the slow tests (POSTRIDER_PART=1/5 for a fifth of them)
	@$(call each,names=$$(.ci/packages $$module slowtests $(PACKAGES)); \
	$(call tested,slow,POSTRIDER_SLOW=1,-p 1 -timeout 90m -run "$$names"))

.PHONY: test/faults
test/faults: postgres $(TESTREPORT) ## Run the fault suite in its short form (SLOW=1: on one broker and on three, and longer)
	$(if $(SLOW),POSTRIDER_SLOW=1) $(REPORT) -- go $(TEST) -timeout 60m -- ./internal/faults

.PHONY: soak
soak: postgres ## Random faults for DURATION=10m from SEED=1 (BATCHES=1|0 NODES=1|3)
	@mkdir -p bin
	POSTRIDER_SOAK_DURATION=$(DURATION) POSTRIDER_SOAK_SEED=$(SEED) POSTRIDER_SOAK_BATCHES=$(BATCHES) POSTRIDER_SOAK_NODES=$(NODES) \
	go test -count=1 -timeout 0 -v -run '^TestSoak$$' ./internal/faults

.PHONY: soak/report
soak/report: export POSTRIDER_SOAK_PAGE := $(CURDIR)/docs/soak.md
soak/report: export POSTRIDER_SOAK_JSON := $(CURDIR)/bin/soak.json
soak/report: export POSTRIDER_SOAK_COMMIT = $(shell git describe --always --dirty)
soak/report: soak ## The same, with a row in docs/soak.md and all figures in bin/soak.json

.PHONY: soak/inbox
soak/inbox: postgres ## Random faults of the inbox's readers, their database and the broker for DURATION from SEED
	POSTRIDER_SOAK_DURATION=$(DURATION) POSTRIDER_SOAK_SEED=$(SEED) go test -count=1 -timeout 0 -v -run '^TestInboxSoak$$' ./internal/faults

.PHONY: test/containers
test/containers: postgres $(TESTREPORT) ## Run the integration tests on containers (needs a Docker engine)
	@if docker version >/dev/null 2>&1; then deploy/testimages/build.sh; \
	elif [ "$${POSTRIDER_REQUIRE_CONTAINERS:-}" = 1 ]; then echo "no Docker engine answers" >&2; exit 1; fi; \
	$(call each,$(call tested,served,POSTRIDER_TEST_BACKEND=containers TESTCONTAINERS_RYUK_DISABLED=true,-tags containers -timeout 20m,-least 1))

.PHONY: test/browser
test/browser: postgres $(TESTREPORT) ## Run the monitor's tests in a real browser (needs Chromium)
	CI_BROWSER=1 $(REPORT) -least 1 -- go $(TEST) -timeout 24m -run Browser -- ./ui/...

.PHONY: test/deploy
test/deploy: postgres $(TESTREPORT) $(HELM) $(COMPOSE) $(PROMTOOL) ## Check what deploys Postrider: Compose file, Helm chart, unit, roles, alert rules, dashboard
	@command -v pgbouncer >/dev/null || test -x /usr/sbin/pgbouncer || .ci/apt pgbouncer
	@command -v systemd-analyze >/dev/null || .ci/apt systemd
	POSTRIDER_HELM=$(CURDIR)/$(HELM) POSTRIDER_COMPOSE=$(CURDIR)/$(COMPOSE) POSTRIDER_PROMTOOL=$(CURDIR)/$(PROMTOOL) POSTRIDER_REQUIRE_TOOLS=1 \
	$(REPORT) -least 1 -- go $(TEST) -timeout 10m -- ./internal/deployment

.PHONY: test/dashboard
test/dashboard: postgres $(TESTREPORT) $(PROMETHEUS) ## Have Prometheus, which it builds for minutes, scrape three workers and answer what the dashboard asks
	POSTRIDER_PROMETHEUS=$(CURDIR)/$(PROMETHEUS) \
	$(REPORT) -least 1 -- go $(TEST) -run '^TestPrometheus' -- ./internal/deployment

.PHONY: test/recipes
test/recipes: postgres $(TESTREPORT) recipes ## Run the recipes for producers and consumers in other languages (examples/recipes)
	POSTRIDER_REQUIRE_TOOLS=1 $(REPORT) -least 1 -- go -C examples $(TEST) -timeout 10m -- ./recipes

.PHONY: test/matrix
test/matrix: servers $(TESTREPORT) ## Run workers on each release of PostgreSQL and nats-server, and write the table in docs/deployment.md (SHORT=1: the corners)
	@status=0; POSTRIDER_SHORT=$(SHORT) POSTRIDER_SERVERS=$(SERVERS) \
	$(REPORT) -least 1 -- go -C tools $(TEST) -tags matrix -timeout 20m -run '^TestMatrix$$' -- ./matrix || status=$$?; cat bin/matrix.txt; exit $$status

.PHONY: test/rolling
test/rolling: postgres $(TESTREPORT) ## Replace workers of an earlier build by those of this one, and back, under load (FROM=v1.2.3, or a commit)
	@.ci/earlier bin/earlier $(FROM)
	POSTRIDER_EARLIER=$(CURDIR)/bin/earlier/postrider \
	$(REPORT) -least 1 -- go -C tools $(TEST) -tags matrix -timeout 10m -run '^TestRolling$$' -- ./matrix

.PHONY: bench
bench: postgres build ## Measure the relay beside a null relay with DATA (BENCH="--only drain --rounds 5"; docs/performance.md)
	go -C tools build -o $(CURDIR)/bin/ ./bench
	./bin/bench --program bin/postrider --data $(DATA) $(BENCH)

.PHONY: bench/charts
bench/charts: postgres build ## Measure what the charts of docs/performance.md show, half an hour, and draw them (ROUNDS=1)
	go -C tools build -o $(CURDIR)/bin/ ./bench
	./bin/bench --program bin/postrider --data $(DATA) --rounds $(ROUNDS) --duration 10s --only drain,replicated,steady \
		--match 'by partition($$|, (100|1000|5000)/s, 3 replicas)' --json $(CHARTS).json
	@$(MAKE) bench/draw

.PHONY: bench/draw
bench/draw: ## Draw those charts from the report that is stored with them
	go -C tools build -o $(CURDIR)/bin/ ./bench
	./bin/bench --from $(CHARTS).json --only drain,replicated --svg $(CHARTS)-drain.svg >/dev/null
	./bin/bench --from $(CHARTS).json --only steady --svg $(CHARTS)-latency.svg >/dev/null

.PHONY: bench/peers
bench/peers: postgres build ## The same drain by other Go libraries (PEERS="-rounds 5"; tools/peers/doc.go)
	go -C tools/peers run . -program $(CURDIR)/bin/postrider -data $(CURDIR)/$(DATA) $(PEERS)

.PHONY: bench/peers/latency
bench/peers/latency: postgres build ## Commit to receipt beside other queues at 100 and 1,000/s; installs graphile-worker with npm (PEERS="-rounds 5 -duration 10s")
	go -C tools/peers run . -latency -graphile $(CURDIR)/bin/tools/graphile-worker -program $(CURDIR)/bin/postrider -data $(CURDIR)/$(DATA) $(PEERS)

.PHONY: peers/faults
peers/faults: postgres ## The same faults for DURATION on Postrider, River and Watermill; table and JSON in bin (SEED=1 ACCOUNTS=1 RELAYS=postrider,river)
	@mkdir -p bin; rm -f bin/peers-faults.*
	@status=0; POSTRIDER_FAULTS_DURATION=$(DURATION) POSTRIDER_FAULTS_SEED=$(SEED) POSTRIDER_FAULTS_RELAYS='$(RELAYS)' \
	POSTRIDER_FAULTS_ACCOUNTS=$(ACCOUNTS) POSTRIDER_FAULTS_FOLDER=$(CURDIR)/bin \
	go -C tools/peers test -count=1 -timeout 0 -v -run '^TestFaults$$' . || status=$$?; \
	[ ! -e bin/peers-faults.txt ] || cat bin/peers-faults.txt; exit $$status

.PHONY: bench/monitor
bench/monitor: postgres ## What ten tabs cost a database with ROWS=500000 waiting rows (MEASURE=60 BINARY=program KEEP=directory)
	POSTRIDER_BENCH_ROWS=$(ROWS) POSTRIDER_BENCH_SECONDS=$(MEASURE) POSTRIDER_BENCH_BINARY=$(BINARY) POSTRIDER_BENCH_DATA=$(KEEP) \
	go test -v -count=1 -timeout 60m -run '^$$' -bench '^BenchmarkMonitor$$' -benchtime 1x ./cmd/postrider

.PHONY: mutants
mutants: postgres ## Break the product in known ways: some test must notice each (RUN=regexp, POSTRIDER_PART=1/5, STRESS=rows for the watermark's, PASSED=1 behind make test)
	go -C tools run ./mutants $(if $(RUN),-run '$(RUN)') $(if $(STRESS),-stress $(STRESS)) $(if $(PASSED),-passed)

.PHONY: lint
lint: $(GOLANGCI) $(WORKSPACE) ## Run golangci-lint at the pinned version
	GOWORK=$(WORKSPACE) $(GOLANGCI) run --build-tags containers,matrix $(addsuffix /...,$(MODULES:%=./%))
	$(GOLANGCI) fmt --diff ./...

.PHONY: fmt
fmt: $(GOLANGCI) ## Format the Go code as lint wants it
	$(GOLANGCI) fmt ./...

.PHONY: tidy
tidy: ## Tidy the go.mod of every module
	$(foreach m,$(MODULES),go -C $(m) mod tidy;)

.PHONY: sql
sql: ## Print every statement as it is sent, and keep them in internal/house/testdata/statements.sql
	@go test -count=1 -run '^TestStatementsReadAsTheyAreSent$$' ./internal/house -update >&2
	@cat internal/house/testdata/statements.sql

.PHONY: house
house: ## Check the house rules that no linter knows
	.ci/house
	go test -count=1 ./internal/house
	@go test -count=1 -v -run "^TestMeasures$$" ./internal/house | sed -n "s/^        //p"

.PHONY: gofmt
gofmt: ## Fail if a file is not formatted
	@files=$$(gofmt -l .); \
	if [ -n "$$files" ]; then echo "not formatted:"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: $(WORKSPACE) ## Run go vet; lint does so with the containers tag
	GOWORK=$(WORKSPACE) go vet $(addsuffix /...,$(MODULES:%=./%))

.PHONY: verify
verify: gofmt vet house lint ## Run every check that is not a test

.PHONY: ci/full
ci/full: ## Run everything that CI knows, all slow tests and mutants included
	.ci/run full

.PHONY: vulnerabilities
vulnerabilities: $(GOVULNCHECK) ## Look for known vulnerabilities that are reachable from our code
	$(foreach m,$(MODULES),(cd $(m) && $(CURDIR)/$(GOVULNCHECK) ./...);)

.PHONY: demo
demo: postgres build ## Deliver DATA and a steady load while workers and servers fail, to a verdict (HEADLESS=1: the short form)
	./bin/postrider dev --chaos --import $(DATA) $(if $(HEADLESS),--chaos-duration=0s --http-addr=off)

.PHONY: image
image: ## Build the container image IMAGE=postrider:devel around a program built here (VERSION=v1.2.3)
	VERSION=$(VERSION) deploy/docker/prebuilt.sh
	docker build --quiet --target prebuilt --file deploy/docker/Dockerfile --tag $(IMAGE) --build-arg VERSION=$(VERSION) \
		--build-arg REVISION=$$(git rev-parse HEAD 2>/dev/null || echo unknown) .

.PHONY: release/snapshot
release/snapshot: $(GORELEASER) $(CYCLONEDX) $(BUILDX) $(HELM) ## Make in bin/dist what a release holds, images where an engine answers; publish nothing
	PATH="$(CURDIR)/$(dir $(CYCLONEDX)):$$PATH" HELM=$(CURDIR)/$(HELM) \
		DOCKER_CONFIG=$(CURDIR)/$(patsubst %/cli-plugins/,%,$(dir $(BUILDX))) $(GORELEASER) release --snapshot --clean \
		$(shell docker version >/dev/null 2>&1 || echo --skip=docker)
	POSTRIDER_RELEASE=$(CURDIR)/bin/dist go test -count=1 -run '^TestRelease' ./internal/deployment

.PHONY: site
site: $(HUGO) ## Build the documentation as a site into bin/site (SITE=http://localhost:8000/ VERSION=v1.2.3)
	rm -rf bin/site
	HUGO_PARAMS_VERSION=$(VERSION) $(HUGO) --source docs/site --destination $(CURDIR)/bin/site --cacheDir $(CURDIR)/bin/tools/hugo-cache \
		--noBuildLock --panicOnWarning --quiet --baseURL $(SITE)

.PHONY: site/check
site/check: $(HUGO) ## Check that the site can be built, and that all of its links lead somewhere
	POSTRIDER_HUGO=$(CURDIR)/$(HUGO) go test -count=1 -run '^TestTheSite' ./internal/deployment

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin

# What the targets above need.

.PHONY: tools
tools: $(GOLANGCI) $(HELM) $(COMPOSE) $(PROMTOOL) $(GOVULNCHECK) ## Build the programs that checks need, into bin/tools

.PHONY: postgres
postgres:
	@.ci/postgres
	@ls /usr/lib*/faketime/libfaketime.so.1 /usr/lib/*/faketime/libfaketime.so.1 2>/dev/null | grep -q . || .ci/apt faketime || $(if $(POSTRIDER_REQUIRE_FAKETIME),false,true) # tests move clocks

.PHONY: gcc
gcc:
	@command -v "$$(go env CC)" >/dev/null || .ci/apt gcc libc6-dev

.PHONY: $(TESTREPORT)
$(TESTREPORT):
	@go -C tools build -o $(CURDIR)/$@ ./testreport

.PHONY: recipes
recipes: $(MODULES_OF_NODE) ## Install the languages of the recipes, and their clients

.PHONY: recipes/languages
recipes/languages:
	@dpkg-query --show $(RECIPES) >/dev/null 2>&1 || .ci/apt $(RECIPES)

.PHONY: servers
servers: ## Fetch the releases of PostgreSQL and nats-server for test/matrix (SHORT=1: for the corners)
	@go -C tools run ./matrix -servers $(SERVERS) $(if $(SHORT),-short)

$(MODULES_OF_NODE): examples/recipes/node/package.json | recipes/languages
	@mkdir -p $(@D)
	@cp $< $(@D)
	npm install --prefix $(@D) --no-audit --no-fund --no-package-lock --ignore-scripts --loglevel=error
	@touch $@

$(GOLANGCI):
	@mkdir -p bin/tools
	@if [ "$$($$(go env GOPATH)/bin/golangci-lint version --short 2>/dev/null)" = "$(GOLANGCI_VERSION:v%=%)" ]; then \
		cp "$$(go env GOPATH)/bin/golangci-lint" $@; \
	else \
		GOFLAGS= GOBIN=$(CURDIR)/bin/tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION); \
		mv bin/tools/golangci-lint $@; \
	fi

$(WORKSPACE): $(addsuffix /go.mod,$(MODULES))
	@mkdir -p $(@D)
	@rm -f $@
	@GOWORK=$@ go work init $(MODULES)

$(GOVULNCHECK):
	@mkdir -p bin/tools
	GOFLAGS= GOBIN=$(CURDIR)/bin/tools go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	@mv bin/tools/govulncheck $@

$(HELM):
	@mkdir -p bin/tools
	GOFLAGS= GOBIN=$(CURDIR)/bin/tools go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	@mv bin/tools/helm $@

$(CYCLONEDX):
	GOFLAGS= GOBIN=$(CURDIR)/$(@D) go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX_VERSION)

$(BUILDX):
	GOFLAGS= GOBIN=$(CURDIR)/$(@D) go install github.com/docker/buildx/cmd/buildx@$(BUILDX_VERSION)
	@mv $(@D)/buildx $@

$(GORELEASER):
	@mkdir -p bin/tools
	GOFLAGS= GOBIN=$(CURDIR)/bin/tools go install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
	@mv bin/tools/goreleaser $@

$(COMPOSE):
	@mkdir -p bin/tools
	GOFLAGS= GOBIN=$(CURDIR)/bin/tools go install github.com/compose-spec/compose-go/v2/cmd@$(COMPOSE_VERSION)
	@mv bin/tools/cmd $@

$(HUGO):
	@mkdir -p bin/tools
	GOFLAGS= GOBIN=$(CURDIR)/bin/tools go install github.com/gohugoio/hugo@$(HUGO_VERSION)
	@mv bin/tools/hugo $@

# They cannot be installed by version: their go.mod replaces modules. Of their service discoveries DNS alone is left in.
$(PROMTOOL) $(PROMETHEUS): deploy/tools/go.mod deploy/tools/go.sum
	@mkdir -p bin/tools
	GOFLAGS= GOWORK=off go -C deploy/tools build -tags remove_all_sd,enable_dns_sd -o $(CURDIR)/$@ \
		github.com/prometheus/prometheus/cmd/$(@F)
