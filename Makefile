# Targets for people; .ci/run calls the same ones. "make" alone prints this help.
#
#   make test STRICT=1   a service that is missing or unused is a failure, not a skip

SHELL := bash
.DEFAULT_GOAL := help

export STRICT BLOBTX_TEST_ROWS
SERVICES = go run ./integration/cmd/services $(if $(STRICT),-strict)
LINT = GOWORK=off go tool -modfile=$(CURDIR)/tools/go.mod golangci-lint

.PHONY: help
help: ## print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---- tests ----

.PHONY: test
test: services ## install and start what is missing, test every module with -race
	@$(SERVICES) -- $(MAKE) --no-print-directory --keep-going test-root test-nested

# Outside the workspace, as users get it: with the versions that the root's own
# go.mod asks for, which the workspace would raise to the other modules'.
.PHONY: test-root
test-root:
	GOWORK=off go test -race ./...

# bin/artifacts keeps what tests leave to look at: pictures of examples/documents.
ARTIFACTS = $(CURDIR)/bin/artifacts

.PHONY: test-nested
test-nested:
	@rm -rf $(ARTIFACTS) && mkdir -p $(ARTIFACTS)
	go test -race -artifacts -outputdir $(ARTIFACTS) ./integration/... ./examples/...

.PHONY: quick
quick: ## test the root module alone: no service, no C compiler
	GOWORK=off go test ./...

# Users may be on a newer SDK than the oldest right one, which go.mod asks for.
# integration/newest.work is the workspace with the newest put in its place.
.PHONY: test-newest
test-newest: services ## test azstore and integration with the newest Azure SDK
	@GOWORK=$(CURDIR)/integration/newest.work $(SERVICES) -- \
		go test ./azstore/... ./internal/azfake/... ./integration/azstore/... ./integration

.PHONY: services
services: ## install PostgreSQL, Azurite, Chromium and a C compiler where missing; starts nothing
	@scripts/install-services

FUZZTIME ?= 10s
.PHONY: fuzz
fuzz: ## fuzz each target for FUZZTIME (10s); an input that fails is kept under testdata/fuzz
	@grep -rHoE --include='*_test.go' --exclude-dir=node_modules '^func Fuzz[A-Za-z0-9]+' . | \
	sed -E 's|/[^/]*:func | |' | sort | { n=0; while read -r dir name; do \
		echo "$$dir $$name"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$dir" || exit 1; n=$$((n+1)); \
	done; echo "fuzzed=$$n failed=0"; }

# ---- checks ----

# Each module by itself, which also shows that it builds outside the workspace.
.PHONY: lint
lint: ## formatting, vet, staticcheck, the rest of .golangci.yml, and tidy go.mod files
	$(LINT) run ./...
	cd integration && $(LINT) run ./...
	cd examples && $(LINT) run ./...
	for module in . integration examples; do GOWORK=off go -C $$module mod tidy -diff || exit 1; done

# ---- measurements ----

.PHONY: bench
bench: services ## ratios of one run; the last line has every figure and how many missed their bound
	@$(SERVICES) -- go run ./integration/cmd/bench $(BENCH)

#   make plans BLOBTX_TEST_ROWS=100000  in a hurry
.PHONY: plans
plans: services ## the plans of a sweeper's statements among a million rows, on every server; the last line counts
	@set -o pipefail; $(SERVICES) -- go test -count=1 -v -run '^TestPlansAmongManyRows$$' ./integration/sqlstore | \
		awk '/^plans=/ { last = $$0; next } { print } END { print last }'

# ---- models ----

.PHONY: model
model: ## explore the protocol's models at full bounds; the last line counts states, violations and mutants
	@go run ./internal/model all

# ---- exploration ----

.PHONY: explore
explore: ## schedules of every scenario with their faults, and docs/crash-points.md; the last line counts
	@scripts/explore

# Three minutes of it, for CI: with no -race, which takes most of the time.
.PHONY: explore-slice
explore-slice:
	@BLOBTX_EXPLORE=slice scripts/explore

#   make mutants MUTANTS='-run fence'    those whose mistake matches
#   make mutants MUTANTS='-slice 4'      a few, for a hurry
.PHONY: mutants
mutants: ## the code with one mistake at a time, and the test and trace that catch it; the last line counts
	@go run ./internal/mutants $(MUTANTS)

# ---- real processes, real kills ----

#   make soak KILLS=30                  shorter
#   make soak SEED=7                    the same choices again; the scheduler's are its own
#   SOAK_STORES=embedded make soak      SQLite and azfake: no service needed
KILLS ?= 300

.PHONY: soak
soak: $(if $(filter embedded,$(SOAK_STORES)),,services) ## kill clients at random on real stores; the last line counts what they were told and lost
	@go run ./integration/cmd/soak -kills $(KILLS) $(if $(SEED),-seed $(SEED))
