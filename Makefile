# make            build bin/bessemer and bin/bessemer-agent
# make demo       deploy a rack of simulated machines before your eyes; N=40 for more of them
# make test       what every change must pass: lint, tests with the race detector
# make e2e        two machines with real firmware go from bare to ACTIVE (root, QEMU)
# make prove      kill, starve and break the appliance at length (25 minutes; the disk-full part needs root)
# make bench      measure, beside a peer where there is one (root; about 6 minutes)
# make lint       gofumpt, vet, staticcheck
# make images     the tiny test operating system, below .cache/images
# make images-debian   Debian with cloud-init, which make e2e deploys too where it is built (root; 4 minutes)
# make clean      remove what was built

export CGO_ENABLED = 0
GO      ?= go
BUILD    = $(GO) build -trimpath -buildvcs=auto -ldflags="-s -w"
SOURCES := $(shell find . -name '*.go' -not -name '*_test.go' -not -path './.cache/*') go.mod go.sum
AGENT    = pxe/ramdisk/agent/bessemer-agent
CACHE    = .cache
KERNEL  ?= $(CACHE)/kernel

all: bin/bessemer bin/bessemer-agent

bin/bessemer: $(SOURCES) $(AGENT) $(wildcard ui/dist/* configs/*)
	$(BUILD) -o $@ .

bin/bessemer-agent: $(AGENT)
	@mkdir -p bin
	cp $< $@

$(AGENT): $(shell find agent -name '*.go' -not -name '*_test.go') go.mod go.sum
	$(BUILD) -o $@ ./agent/cmd/bessemer-agent

demo: bin/bessemer
	@bin/bessemer demo $(N)

test: lint
	CGO_ENABLED=1 $(GO) test -race -timeout 20m ./...
	$(GO) test -count=1 -run TestMachinesWithQuirks .

lint:
	@out=$$($(GO) tool gofumpt -l .); test -z "$$out" || { echo "gofumpt would change:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

# First of all it says what is missing on this machine.
e2e:
	@testdata/need-e2e.sh
	$(MAKE) all images
	$(GO) test -count=1 -v -timeout 40m -run 'TestE2E' . -e2e -kernel $(KERNEL) -images $(CACHE)/images

# What RELIABILITY.md promises, proved at length; PROVE_FLAGS=-prove-for=30m for
# a kill storm of that length. Root lets it fill a real disk.
PROVE_TABLE = $(CACHE)/prove.json
prove:
	@mkdir -p $(CACHE); rm -f $(PROVE_TABLE)
	$(GO) test -count=1 -v -timeout 90m ./server/prove -args -prove -prove-table $(CURDIR)/$(PROVE_TABLE) $(PROVE_FLAGS) >$(CACHE)/prove.log; \
	  code=$$?; grep -E '^prove:|violation:|^--- FAIL' $(CACHE)/prove.log; server/prove/table.sh $(PROVE_TABLE) >$(CACHE)/prove.md; exit $$code

bench: all images
	$(GO) test -count=1 -v -timeout 15m -run 'TestBench' . -bench-peers -kernel $(KERNEL) -images $(CACHE)/images $(BENCH_FLAGS)

images: $(CACHE)/images/tiny.sha256

# The checksums are what the builders write last.
$(CACHE)/images/tiny.sha256: $(addprefix testdata/images/,build-tiny.sh disk.sh tiny-init) | $(KERNEL)
	testdata/images/build-tiny.sh $(KERNEL) $(CACHE)/images

images-debian: $(CACHE)/images/debian.sha256

$(CACHE)/images/debian.sha256: $(addprefix testdata/images/,build-debian.sh disk.sh debian-marker)
	testdata/images/build-debian.sh $(CACHE)/images raw.zst

$(KERNEL):
	testdata/images/fetch-kernel.sh $@

clean:
	rm -rf bin $(AGENT) e2e-artifacts

.PHONY: all demo test lint e2e prove bench images images-debian clean
