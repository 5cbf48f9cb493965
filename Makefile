# What can be done here. `make test` is what CI runs; it installs what it needs, if that is missing.

GO      ?= go
LINT    := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.6.0
SUDO    := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

# Programs that the tests run for real, as program:package of Debian.
NEEDED := mosquitto:mosquitto mosquitto_pub:mosquitto-clients promtool:prometheus i2ctransfer:i2c-tools

.PHONY: build test tools lint unit race fuzz cross bench clean

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o build/gateway ./cmd/gateway

test: tools lint unit race cross

# A daemon that a package would start by itself stays stopped: the tests start their own.
POLICY := /usr/sbin/policy-rc.d
tools:
	@missing=""; for pair in $(NEEDED); do \
	  PATH="$$PATH:/usr/sbin:/sbin" command -v $${pair%%:*} >/dev/null || missing="$$missing $${pair##*:}"; done; \
	[ -n "$$missing" ] || exit 0; \
	echo "installing:$$missing"; \
	if [ ! -e $(POLICY) ]; then \
	  ours=yes; printf '#!/bin/sh\nexit 101\n' | $(SUDO) tee $(POLICY) >/dev/null; $(SUDO) chmod +x $(POLICY); fi; \
	$(SUDO) apt-get update -q && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing; \
	status=$$?; [ -z "$$ours" ] || $(SUDO) rm -f $(POLICY); exit $$status

lint:
	@bad=$$(gofmt -l .); [ -z "$$bad" ] || { echo "gofmt would change:"; echo "$$bad"; exit 1; }
	$(GO) vet ./...
	$(LINT) run ./...

# HIL_TEST_ALL makes a test fail that would skip for want of a program. Fuzz seeds run here too.
unit:
	HIL_TEST_ALL=1 $(GO) test -count=1 -timeout 15m ./...

race:
	$(GO) test -race -short -count=1 -timeout 15m ./...

# A search on each fuzz target, beyond the seeds that `unit` runs; FUZZTIME=30s searches longer. It is not part of
# `test`: what chance finds must not decide on a change that has nothing to do with it. Keep a finding as a seed.
fuzz:
	@mkdir -p build; for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep ^Fuzz); do \
	    echo "fuzz $$pkg $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(or $(FUZZTIME),2000x) $$pkg >build/fuzz.log 2>&1 || { cat build/fuzz.log; rm -f build/fuzz.log; exit 1; }; \
	  done; done; rm -f build/fuzz.log

# Everything that is promised to build, builds.
cross:
	@for t in linux/amd64 linux/arm64 linux/arm/6 linux/arm/7 linux/386 darwin/arm64 windows/amd64; do \
	  set -- $$(echo $$t | tr / ' '); echo "build $$t"; \
	  CGO_ENABLED=0 GOOS=$$1 GOARCH=$$2 GOARM=$$3 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o build/cross/gateway-$$1-$$2$$3 ./cmd/gateway || exit 1; done

# The figures, as medians of COUNT runs, and the minute that the demo's memory takes once. Compare side by side:
# machines are noisy.
COUNT ?= 6
BENCHSTAT := $(GO) run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
bench:
	@mkdir -p build
	$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) $$($(GO) list ./... | grep -v cmd/gateway$$) | tee build/bench.txt
	$(GO) test -run '^$$' -bench 'Exec|Sample' -benchtime 5x -count $(COUNT) ./cmd/gateway | tee -a build/bench.txt
	$(GO) test -run '^$$' -bench Scrape -benchtime 200x -count $(COUNT) ./cmd/gateway | tee -a build/bench.txt
	$(GO) test -run '^$$' -bench 'Minute' -benchtime 1x ./cmd/gateway | tee -a build/bench.txt
	$(BENCHSTAT) build/bench.txt

clean:
	rm -rf build
