# Everything one does with this repository. `make help` prints itself.
SHELL := /bin/bash
.DEFAULT_GOAL := help
MODULES := . examples

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Install what the tests need: a Redis server and a C compiler for the race detector
	@./scripts/deps

.PHONY: test
test: deps ## Run all tests of all modules, with the race detector
	@failed=0; for m in $(MODULES); do echo "== go test -race $$m"; (cd $$m && go test -race -parallel 4 -timeout 15m ./...) || failed=1; done; exit $$failed

.PHONY: mutants
mutants: deps ## Seed known bugs, one at a time, and see that the tests find each
	HOLDFAST_MUTANTS=1 go test -count=1 -timeout 20m -run "TestMutants$$" -v ./internal/mutants

.PHONY: fuzz
fuzz: ## Fuzz everything that parses, 30 s each
	@set -e; for f in internal/script:FuzzName internal/script:FuzzDecode driver/rueidis:FuzzParseURL internal/redistest:FuzzFrame; do \
		go test -run '^$$' -fuzz "^$${f#*:}$$" -fuzztime 30s "./$${f%:*}"; done

.PHONY: bench
bench: deps ## Measure, side by side with a bare client
	go test -run '^$$' -bench . -benchtime 2s .

.PHONY: lint
lint: ## Vet and lint all modules
	@set -e; for m in $(MODULES); do echo "== lint $$m"; (cd $$m && go vet ./... && go tool -modfile=$(CURDIR)/tools/go.mod golangci-lint run --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: demo
demo: ## Run the quick start; needs nothing but Go
	go run -C examples ./quickstart
