# make            build bin/bessemer and bin/bessemer-agent
# make test       what every change must pass: lint, tests with the race detector
# make e2e        two machines with real firmware go from bare to ACTIVE (root, QEMU)
# make bench      measure, beside a peer where there is one (root; about 5 minutes)
# make lint       gofumpt, vet, staticcheck
# make images     the tiny test operating system, below .cache/images
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

test: lint
	CGO_ENABLED=1 $(GO) test -race ./...

lint:
	@out=$$($(GO) tool gofumpt -l .); test -z "$$out" || { echo "gofumpt would change:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

e2e: all images
	$(GO) test -count=1 -v -timeout 40m -run 'TestE2E' . -e2e -kernel $(KERNEL) -images $(CACHE)/images

bench: all images
	$(GO) test -count=1 -v -timeout 15m -run 'TestBench' . -bench-peers -kernel $(KERNEL) -images $(CACHE)/images

images: $(CACHE)/images/tiny.raw

$(CACHE)/images/tiny.raw: testdata/images/build-tiny.sh | $(KERNEL)
	testdata/images/build-tiny.sh $(KERNEL) $(CACHE)/images

$(KERNEL):
	testdata/images/fetch-kernel.sh $@

clean:
	rm -rf bin $(AGENT) e2e-artifacts

.PHONY: all test lint e2e bench images clean
