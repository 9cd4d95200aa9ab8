# Every target that a contributor needs; "make" alone lists them.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
PLATFORMS   := linux/amd64 linux/arm64 darwin/arm64

PORT  ?= 11300
HTTP  ?= 11380
DATA  ?=
ARGS  ?=
FOR   ?= 30s
BENCH ?= .
COUNT ?= 1
PKG   ?= ./...

# The report turns go test -json back into go test's own lines and names the skipped tests at
# the end. With CI=true a skipped test is a failure, and so is a slow test in the short set.
report = awk -v ci="$${CI:-}" -f .ci/testreport.awk

# What makes releases is a module of its own, which ./... does not reach: see
# cmd/release/main.go.
in-release = go -C cmd/release
whole      = $(filter ./...,$(PKG))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { name[++n] = $$1; text[n] = $$2; if (length($$1) > wide) wide = length($$1) } \
		END { for (i = 1; i <= n; i++) printf "  %-" wide "s  %s\n", name[i], text[i] }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/polystalkd and bin/polystalk, which need no library
	CGO_ENABLED=0 go build -o bin/ ./cmd/polystalkd ./cmd/polystalk

.PHONY: run
run: build ## build the server and run it on this machine, with its console (DATA=dir keeps jobs; PORT=11300, HTTP=11380, ARGS= for more flags)
	@$(if $(DATA),mkdir -p '$(DATA)')
	@echo 'console: http://127.0.0.1:$(HTTP)/   clients: 127.0.0.1:$(PORT)   end: Ctrl-C'
	exec ./bin/polystalkd -l 127.0.0.1 -p $(PORT) --http 127.0.0.1:$(HTTP) $(if $(DATA),-b '$(DATA)') $(ARGS)

.PHONY: site
site: ## the guide as a static site, in bin/site (needs mkdocs and mkdocs-material)
	@command -v mkdocs >/dev/null || { echo "make site: mkdocs is not installed: apt-get install mkdocs mkdocs-material" >&2; exit 1; }
	mkdocs build --strict --quiet -f cmd/manual/site/mkdocs.yml
	@echo 'open bin/site/index.html'

# The tests run without go test's own vet, because make vets everything first.
.PHONY: test
test: ## go vet and the short tests, in about a minute; names the skipped tests at the end (PKG=./...)
	go vet $(PKG)
	go test -short -vet=off -count=1 -timeout 10m -json $(PKG) | $(report) -v short=2

.PHONY: race
race: ## the short tests under the race detector (PKG=./...)
	go test -short -vet=off -race -count=1 -timeout 20m -json $(PKG) | $(report) -v short=0

.PHONY: long
long: ## every test, the long ones and those of make release included, in about ten minutes (PKG=./...)
	{ go test -vet=off -count=1 -timeout 20m -json $(PKG) || bad=1; $(if $(whole),$(in-release) test -count=1 -timeout 15m -json ./... || bad=1;) exit $${bad:-0}; } | $(report)

.PHONY: soak
soak: sim consensus disk faults ## hours: every test under the race detector, N seeds of each simulator, ROUNDS rounds of faults
	go test -vet=off -race -count=1 -timeout 1h -json $(PKG) | $(report)

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, go fix, and a build for every platform
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:" $$unformatted >&2; exit 1; fi
	go vet ./...
	go run $(STATICCHECK) ./...
	go fix -diff ./...
	$(in-release) vet ./...
	$(in-release) run $(STATICCHECK) ./...
	$(in-release) fix -diff ./...
	@for p in $(PLATFORMS); do \
		echo "build and vet for $$p"; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} go build -o /dev/null ./...; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} go vet ./...; \
	done

.PHONY: check
check: lint race long ## what CI runs, without the short tests by themselves

.PHONY: fuzz
fuzz: ## run every fuzz test for a while (FOR=30s each, PKG=./...)
	@for p in $$(go list $(PKG)); do \
		for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
			echo "$$p $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FOR) $$p; \
		done; \
	done

.PHONY: bench
bench: build ## compare with the installed beanstalkd (under ten minutes): loadtest/RESULTS.md and its chart
	@command -v beanstalkd >/dev/null || { echo "make bench: beanstalkd, which all figures are relative to, is not installed: apt-get install beanstalkd" >&2; exit 1; }
	mkdir -p loadtest/out
	go run ./loadtest -bench -goals -rounds 3 -floor \
		-compare reference=beanstalkd \
		-compare 'polystalkd=bin/polystalkd -l 127.0.0.1 -p {port}' \
		-compare 'one-loop=bin/polystalkd -l 127.0.0.1 -p {port} --loops 1 --shards 1' \
		-markdown loadtest/RESULTS.md -chart loadtest/results.svg -json loadtest/out/bench.json

.PHONY: bench-journal
bench-journal: build ## polystalkd -b against beanstalkd -b, three minutes; loadtest/JOURNAL.md; fails on a goal missed
	@command -v beanstalkd >/dev/null || { echo "make bench-journal: beanstalkd is not installed: apt-get install beanstalkd" >&2; exit 1; }
	go run ./loadtest --server-cpus 0 --load-cpus 1 --rounds 5 --duration 2s --markdown loadtest/JOURNAL.md \
		--compare 'beanstalkd-f0=beanstalkd -l 127.0.0.1 -p {port} -b {dir} -f0' \
		--compare 'polystalkd-b=./bin/polystalkd -l 127.0.0.1 -p {port} -b {dir}' \
		--compare 'beanstalkd-f50=beanstalkd -l 127.0.0.1 -p {port} -b {dir} -f50' \
		--compare 'polystalkd-f50=./bin/polystalkd -l 127.0.0.1 -p {port} -b {dir} -f50' \
		--compare 'beanstalkd-F=beanstalkd -l 127.0.0.1 -p {port} -b {dir} -F' \
		--compare 'polystalkd-F=./bin/polystalkd -l 127.0.0.1 -p {port} -b {dir} -F' \
		--compare 'memory=./bin/polystalkd -l 127.0.0.1 -p {port}' \
		--load 'cycle name=50-connections skip=memory' \
		--load 'cycle name=1-connection conns=1 skip=memory,beanstalkd-f50,polystalkd-f50,beanstalkd-F,polystalkd-F' \
		--load 'cycle name=1-connection-100-pipelined conns=1 depth=100 skip=memory,beanstalkd-f50,polystalkd-f50,beanstalkd-F,polystalkd-F' \
		--load 'cycle name=50-connections-16-pipelined depth=16 skip=beanstalkd-f50,polystalkd-f50,beanstalkd-F,polystalkd-F' \
		--assert '50-connections: polystalkd-b.ops>=10' \
		--assert '1-connection: polystalkd-b.ops>=1' \
		--assert '1-connection-100-pipelined: polystalkd-b.ops>=20' \
		--assert '50-connections: polystalkd-f50.cpu/beanstalkd-f50<=0.75' \
		--assert '50-connections: polystalkd-F.cpu/beanstalkd-F<=0.75' \
		--assert '50-connections-16-pipelined: polystalkd-b.cpu/memory<=1.6'

.PHONY: bench-gearman
bench-gearman: build ## polystalkd's Gearman against gearmand, six minutes, most of them gearmand's with a million jobs; loadtest/GEARMAN.md
	@command -v gearmand >/dev/null || { echo "make bench-gearman: gearmand is not installed: apt-get install gearman-job-server" >&2; exit 1; }
	mkdir -p loadtest/out
	go run ./loadtest -protocol gearman -bench -goals -rounds 5 --server-cpus 0 --load-cpus 1 \
		--compare 'reference=gearmand -t 4 -L 127.0.0.1 -p {port} -l stderr' \
		--compare 'polystalkd=./bin/polystalkd gearmand -L 127.0.0.1 -p {port} -l none' \
		--markdown loadtest/GEARMAN.md -json loadtest/out/gearman.json

.PHONY: bench-peers
bench-peers: build ## jobs through polystalkd, beanstalkd, Redis, NATS JetStream and RabbitMQ, ten minutes; loadtest/PEERS.md; leaves out what is not installed
	loadtest/peers.sh

.PHONY: bench-access
bench-access: build ## what an access file and TLS cost, beside proxies with TLS, five minutes; loadtest/ACCESS.md; BASE=FILE adds an older server
	BASE='$(BASE)' loadtest/access.sh

.PHONY: bench-operators
bench-operators: ## what operators' pages cost with 50,000 tubes
	go test -run '^$$' -bench 'Pages' -benchtime 10x -timeout 10m ./router/http

ROUNDS ?= 100

.PHONY: faults
faults: build ## kill, stop and cut off one server, and then three, under clients that keep account, ROUNDS=100 times (SEED= for what is drawn): ten minutes; fails if anything was lost
	go build -o bin/ ./loadtest/faults
	./bin/faults -rounds $(ROUNDS) $(if $(SEED),-seed $(SEED))
	./bin/faults -nodes 3 -rounds $(ROUNDS) $(if $(SEED),-seed $(SEED))

.PHONY: bench-micro
bench-micro: ## the Go benchmarks (BENCH=., COUNT=1, PKG=./...)
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG)

.PHONY: console-vendor
console-vendor: ## bring the console's libraries in anew, from npm, in the versions that router/http/vendor.sh names
	router/http/vendor.sh

VERSION  :=
ONLY     :=
SIGN     :=
URL      :=
RELEASED := bin/release

.PHONY: release
release: ## make archives, packages, repositories, an image and checksums in bin/release (VERSION=1.2.3-rc.1 ONLY=linux/amd64 SIGN=KEY URL=https://…)
	rm -rf $(RELEASED)
	$(in-release) run . -root $(CURDIR) -out $(CURDIR)/$(RELEASED) -version '$(VERSION)' -platforms '$(ONLY)' -sign '$(SIGN)' -url '$(URL)'

.PHONY: release-check
release-check: ## make the release of the last commit twice, in two folders, once without any cache, and compare: ten minutes
	@dir=$$(mktemp -d); trap 'chmod -R u+w $$dir; rm -rf $$dir' EXIT; \
	git clone -q . $$dir/one; git clone -q . $$dir/two/further/down; \
	time $(MAKE) -C $$dir/one release; \
	GOCACHE=$$dir/cache TZ=Asia/Kathmandu $(MAKE) -C $$dir/two/further/down release; \
	diff -r $$dir/one/$(RELEASED) $$dir/two/further/down/$(RELEASED); \
	echo "both have the same files:"; cat $$dir/one/$(RELEASED)/SHA256SUMS

.PHONY: clean
clean: ## remove what was built here
	rm -rf bin .ci/tmp

N    ?= 5000
SEED ?=

.PHONY: sim
sim: ## simulate N histories of each kind, or run the one of SEED= again
	go test ./router/sim -count=1 -timeout 2h -v $(if $(SEED),-seed=$(SEED),-runs=$(N))

.PHONY: consensus
consensus: ## simulate N clusters of nodes without servers, or the one of SEED= again
	go test ./router/cluster -run '^TestConsensus$$' -count=1 -timeout 2h -v $(if $(SEED),-seed=$(SEED),-runs=$(N))

.PHONY: disk
disk: ## simulate N journals on a disk that fails to write and loses power, or the one of SEED= again
	go test ./shard/wal -run '^(TestFlakyDisk|TestCrashSometimes)$$' -count=1 -timeout 2h -v $(if $(SEED),-seed=$(SEED),-runs=$(N))
