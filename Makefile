# The commands of development. They need Go, GNU make and sh. `go run` fetches other tools at a fixed version, so
# no go.mod lists them. `make help` lists the targets.

GO ?= go
GOLANGCI_LINT_VERSION := v2.14.0
GOLANGCI_LINT = $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
ACTIONLINT = $(GO) run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GORELEASER ?= $(GO) run github.com/goreleaser/goreleaser/v2@v2.16.0

# Settings for the command line.
TESTFLAGS ?=
TEST_TIMEOUT ?= 45m
FUZZTIME ?= 60s
OPS ?= 100000
BUCKETS ?= 1000000
STORES ?= embedded
SEED ?=
EXAMPLES ?= 100
BENCHFLAGS ?=
REPORTFLAGS ?=
RUN ?= .
PKGS ?=
ADDRESS ?= 127.0.0.1:8000

# The race detector covers our code and the code that shares memory with it. SQLite in Go is a translation of C whose threads never share
# our memory, and compress/flate is arithmetic. Both are ten times slower under the detector, so it leaves them out.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc/...=-race=false -gcflags=compress/flate=-race=false

# The modules that are released together are those of go.work, which the pattern "work" selects. Benchmarks, examples and the
# driver of a browser are modules with a workspace of their own, so that what they require raises no version of the program.
RELEASED := $(shell sed -n 's|^\t\./||p; s|^\t\.$$|.|p' go.work)
NESTED := bench examples webtest
MODULES := $(RELEASED) $(NESTED)
# Modules whose statements make cover counts.
COVER ?= $(RELEASED)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@echo 'Usage: make TARGET [NAME=value ...]'
	@echo
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile

# DynamoDB Local, moto, Locust, Envoy, the CDK, the Python library, Chromium and axe-core are fetched once, so that no test waits for a download. The tests
# start and stop them.
# The tests of dynamo take longest and mostly wait for their engine, so they begin first.
# To detect support for -race, a test of package errors runs with it. That needs a C compiler, its headers, cgo and a
# platform with the race detector. Go caches the result, so only the first run is slow.
.PHONY: test
test: ## Run all tests shuffled, with -race where a C compiler is found; TESTFLAGS='-short -v' adds flags
	@race='$(RACE)'; export GORACE=atexit_sleep_ms=0; \
	if ! $(GO) test -race -run '^$$' errors >/dev/null 2>&1; then \
		race=; export CGO_ENABLED=0; \
		echo 'test: no working C compiler with cgo found; running without -race'; \
	fi; \
	need() { \
		tests=$$1; shift; "$$@" >/dev/null; status=$$?; \
		if [ $$status -eq 3 ] && [ "$$CI" != true ]; then \
			echo "*** test: THE TESTS $$tests ARE SKIPPED, see the line above ***"; \
		elif [ $$status -ne 0 ]; then exit $$status; fi; \
	}; \
	[ -n "$$ZAEL_TEST_DYNAMODB_ENDPOINT" ] || need 'OF THE DYNAMODB STORE' scripts/dynamodb-local fetch; \
	[ -n "$$ZAEL_TEST_MOTO_ENDPOINT" ] || need 'OF STACKS' scripts/moto-local setup; \
	need 'WITH LOCUST' scripts/locust-local setup; \
	need 'WITH ENVOY' scripts/envoy-local setup; \
	need 'WITH THE CDK' scripts/cdk-local setup; \
	need 'WITH PYTHON' scripts/python-peer setup; \
	need 'IN A BROWSER' scripts/chromium setup; \
	need 'OF ACCESSIBILITY' scripts/axe-core setup; \
	set -x; \
	$(GO) test $$race -shuffle=on -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./dynamo work && \
	$(MAKE) --no-print-directory -j2 --output-sync=target RACE="$$race" $(NESTED:%=test-in-%)

# Programs are linked only by the packages that are left out.
.PHONY: quick
quick: ## Run the plain Go tests in a minute or two: no -race, engines, programs, browsers, benchmarks or examples
	@echo 'quick: leaves out the race detector, DynamoDB Local, moto, Locust, Envoy, Python, the CDK, linked programs, browsers,'
	@echo '       benchmarks and examples; make test runs all of it'
	@ZAEL_TEST_ENGINES=off CI= $(GO) test -short -timeout 10m $(TESTFLAGS) \
		$$($(GO) list work | grep -v -e /cmd/zae-limiter -e /cmd/internal/release -e /dynamo/infra)

# The tests of the nested modules wait for browsers and engines more than they compute, so two run at a time.
.PHONY: $(NESTED:%=test-in-%)
$(NESTED:%=test-in-%): test-in-%:
	cd $* && $(GO) vet ./... && $(GO) test $(RACE) -shuffle=on -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./...

# A statement counts if a test of any package of its module executes it, so every test program has the counters of all packages. The race
# detector would only make that slower.
.PHONY: cover
cover: ## Print the share of statements that the tests execute, and write coverage/; PKGS='./memory ./sqlite' selects packages
	@GO='$(GO)' PKGS='$(PKGS)' TESTFLAGS='-timeout $(TEST_TIMEOUT) $(TESTFLAGS)' scripts/cover $(COVER)

# Updates go over the wire of package dynamo wherever the configuration allows it, so `make test` runs that way. In a Lambda function the SDK
# sends them, and the variable makes the tests believe that they are in one.
.PHONY: test-sdk
test-sdk: ## Run the tests of the DynamoDB store with updates sent by the SDK; RUN='TestOneFault|TestCompare' selects some
	AWS_LAMBDA_FUNCTION_NAME=test $(GO) test -shuffle=on -timeout $(TEST_TIMEOUT) -run '$(RUN)' $(TESTFLAGS) ./dynamo

.PHONY: lint
lint: ## Check style, common mistakes and formatting (golangci-lint, gofumpt); the first run compiles the linter
	@status=0; \
	for module in $(MODULES); do \
		echo "lint: module $$module"; \
		(cd "$$module" && $(GOLANGCI_LINT) run ./... && $(GOLANGCI_LINT) fmt --diff) || status=1; \
	done; \
	exit $$status

.PHONY: fmt
fmt: ## Format the Go files as lint expects
	$(GOLANGCI_LINT) fmt

# Lines of "package file" for every test file of this platform.
FUZZ_FILES = {{$$p := .}}{{range .TestGoFiles}}{{$$p.ImportPath}} {{$$p.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$$p.ImportPath}} {{$$p.Dir}}/{{.}}{{"\n"}}{{end}}

# Before Go 1.27 the fuzzer sometimes reports the end of -fuzztime as a failure (go.dev/issue/75804). It then prints
# only "context deadline exceeded", without a failing input or a source line except the seed. Only this case is ignored.
.PHONY: fuzz
fuzz: ## Run every Fuzz function of the tree, FUZZTIME=60s each
	@log=$$(mktemp) || exit 1; trap 'rm -f "$$log"' EXIT; trap 'exit 130' INT TERM; \
	found=0; failed=; \
	for module in $(MODULES); do \
		cd "$(CURDIR)/$$module" || exit 1; \
		files=$$($(GO) list -f '$(FUZZ_FILES)' ./...) || exit 1; \
		set -- $$(printf '%s\n' "$$files" | while read -r pkg file; do \
			[ -z "$$file" ] || sed -n "s|^func \(Fuzz[^(]*\)([^)]*\*testing\.F).*|$$pkg \1|p" "$$file"; \
		done); \
		while [ $$# -gt 0 ]; do \
			pkg=$$1 name=$$2; shift 2; found=$$((found + 1)); \
			echo "fuzz: $$pkg $$name for $(FUZZTIME)"; \
			{ $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$pkg" 2>&1 || echo 'fuzz: go test failed'; } | tee "$$log"; \
			grep -qx 'fuzz: go test failed' "$$log" || continue; \
			if grep -qx ' *context deadline exceeded' "$$log" && ! grep -vE ': seed [0-9]+$$' "$$log" | grep -qE 'Failing input|\.go:[0-9]|panic'; then \
				echo "fuzz: $$name only ran out of time (go.dev/issue/75804); ignored"; \
			else \
				failed="$$failed $$name"; \
			fi; \
		done; \
	done; \
	if [ $$found -eq 0 ]; then echo 'fuzz: no Fuzz function found'; exit 1; fi; \
	if [ -n "$$failed" ]; then echo "fuzz: failed:$$failed"; exit 1; fi; \
	echo "fuzz: $$found targets, all clean"

# This runs without -race, which is several times slower; `make test` runs a short comparison with it. The embedded stores take seconds
# for 100,000 operations. DynamoDB Local takes minutes: compared with memory, then with an aggregator, then alone on a bad network. The
# books of escrow are checked after each of as many operations.
.PHONY: compare
compare: ## Drive two stores with one random history: OPS=100000, SEED=n repeats a run, STORES=embedded or dynamo
	$(GO) test -v -run '^Test(CompareLong|Compare(Aggregated|Lean|InEscrow)?|Endure(InEscrow)?)$$' -count=1 -timeout 0 \
		$(if $(filter dynamo,$(STORES)),./dynamo,./repotest ./sqlite) -compare.ops=$(OPS)$(if $(SEED), -compare.seed=$(SEED))
	$(if $(filter dynamo,$(STORES)),,$(GO) test -run '^TestBooks$$' -count=1 -timeout 0 ./escrow -books.ops=$(OPS))

# `make test` runs the same with few buckets, and checks only what must not grow with their number.
.PHONY: scale
scale: ## Check the time and memory of the dashboard on BUCKETS=1000000 buckets in a file
	$(GO) test -v -run '^TestDashboardOfManyBuckets$$' -count=1 -timeout 0 ./cmd/internal/cli/programs -dashboard.buckets=$(BUCKETS)

# The virtual environment is created once, in .cache.
.PHONY: interop
interop: ## Run the Python library beside ours on one table (Python 3.11 or newer)
	@python=$$(scripts/python-peer setup) && newer=$$(scripts/python-newer setup 0.17.0) || exit $$?; set -x; \
	ZAEL_TEST_PYTHON="$$python" ZAEL_TEST_PYTHON_NEWER="$$newer" $(GO) test -count=1 -timeout $(TEST_TIMEOUT) -run 'Python|Interop|Other|Damaged' $(TESTFLAGS) ./dynamo ./dynamo/internal/interop ./dynamo/infra

# The Go tests generate requests from the document too. Schemathesis shares no code with them.
.PHONY: schemathesis
schemathesis: ## Send requests that Schemathesis generates to a real server; EXAMPLES=100 for each call, SEED=n repeats a run
	scripts/schemathesis run --max-examples $(EXAMPLES) $(if $(SEED),--seed $(SEED))

.PHONY: examples
examples: ## Run every example as a reader would; TESTFLAGS=-v shows what each prints
	cd examples && $(GO) test -count=1 -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./...

.PHONY: bench
bench: ## Print ratios against other limiters, bare SQL, the raw SDK and Python; BENCHFLAGS='-only dynamo' runs one section
	cd bench && $(GO) run . $(BENCHFLAGS)

.PHONY: report
report: build ## Measure absolute figures and write docs/benchmarks.md with its charts; takes minutes on an idle machine
	cd bench && $(GO) run . report $(REPORTFLAGS)

.PHONY: docs
docs: ## Rewrite the pages and golden files that are generated from the code
	$(GO) test ./cmd/internal/cli -count=1 -run '^Test(HelpOfEveryCommand|Reference|ManPages|PagesRun|Screens)' -update
	$(GO) test ./cmd/internal/docs ./cmd/internal/server ./cmd/internal/otelsdk -count=1 -run '^Test(GoBlocks|Reference|Dashboard$$)' -update
	$(GO) test ./dynamo/infra -count=1 -run '^Test(Alarms|Calls|Outputs|Parameters|Resources|Statements)Page$$' -update

# The programs are installed once, in .cache. Warnings are errors, and the pages must load nothing from other hosts.
.PHONY: site
site: ## Build the documentation site into site/ (Python 3.11 or newer, npm)
	scripts/site build

.PHONY: preview
preview: ## Serve the documentation site on ADDRESS=127.0.0.1:8000, rebuilt and reloaded when a page changes
	scripts/site preview $(ADDRESS)

.PHONY: api
api: ## Rewrite api, the exported names of the public packages; api/README.md says what else a removed name needs
	$(GO) test ./api -count=1 -run '^TestAPI$$' -update
	$(GO) test ./api -count=1

# The tests are vetted too. They run on their platforms, in the workflows.
CROSS ?= windows/amd64 darwin/arm64 linux/arm64

.PHONY: cross
cross: ## Vet everything for other platforms, and build the programs: CROSS='windows/amd64 darwin/arm64 linux/arm64'
	@for platform in $(CROSS); do \
		export GOOS=$${platform%/*} GOARCH=$${platform#*/} CGO_ENABLED=0; \
		for module in $(MODULES); do \
			echo "cross: $$platform, module $$module"; \
			(cd "$$module" && $(GO) vet -trimpath ./...) || exit 1; \
		done; \
		$(GO) build -trimpath -o /dev/null ./cmd/zae-limiter && $(GO) build -trimpath -o /dev/null ./cmd/zae-limiter-function || exit 1; \
	done

.PHONY: workflows
workflows: ## Check the workflows of GitHub (actionlint)
	$(ACTIONLINT)

.PHONY: release-check
release-check: workflows ## Check the workflows and the configuration of releases; the first run compiles GoReleaser
	$(GORELEASER) check

# Without an account and without Docker there are no signatures, no bills of materials and no image. The test unpacks the rest and
# runs it.
.PHONY: release-snapshot
release-snapshot: release-check ## Build a release into dist without publishing it, and try its files; takes minutes
	$(GORELEASER) release --snapshot --clean --skip=docker,sign,sbom
	ZAEL_TEST_DIST="$(CURDIR)/dist" $(GO) test ./cmd/internal/release -count=1 -v -run '^TestSnapshot'

# The pictures come from the tests, so the page in them is the page that was tested.
.PHONY: pictures
pictures: ## Rewrite the pictures of the dashboard in docs/images with a headless Chromium
	cd webtest && $(GO) test -count=1 -timeout $(TEST_TIMEOUT) -run '^Test(Demo)?Pictures?$$' . -pictures=../docs/images

# -buildvcs=auto overrides GOFLAGS, which may switch it off. The version is the nearest tag without the v, as in
# releases. Without a tag, the program takes it from its build info.
.PHONY: build
build: ## Build the static program bin/zae-limiter, and the program of its functions
	@version=; \
	if [ -e .git ]; then version=$$(git describe --tags --dirty --match 'v[0-9]*' 2>/dev/null | sed 's/^v//'); fi; \
	set -x; \
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=auto \
		-ldflags "-s -w$${version:+ -X github.com/zeroae/zae-limiter-go/cmd/internal/cli.version=$$version}" \
		-o "bin/zae-limiter$$($(GO) env GOEXE)" ./cmd/zae-limiter && \
	CGO_ENABLED=0 GOOS=linux $(GO) build -trimpath -buildvcs=auto -ldflags "-s -w" -o bin/zae-limiter-function ./cmd/zae-limiter-function

.PHONY: check
check: test lint ## Run test and lint; run it before you hand in a change

.PHONY: hooks
hooks: ## Install the optional hook scripts/pre-commit into .git/hooks
	@hook=$$(git rev-parse --git-path hooks)/pre-commit || exit 1; \
	if [ -e "$$hook" ] && ! grep -q 'zae-limiter-go pre-commit hook' "$$hook"; then \
		echo "hooks: $$hook exists and is not ours; left unchanged"; exit 1; \
	fi; \
	mkdir -p "$$(dirname "$$hook")" && cp scripts/pre-commit "$$hook" && chmod +x "$$hook" && echo "hooks: installed $$hook"

.PHONY: clean
clean: ## Remove the files that the other targets create
	rm -rf bin dist site docs/assets/mermaid.min.js .cache coverage coverage.*
