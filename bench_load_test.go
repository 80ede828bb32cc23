//go:build linux

package main_test

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"
)

// A load is what clients of a server got in a while.
type load struct {
	bytes, requests int64
	took            time.Duration
}

func (l load) megabytes() float64 { return mega(l.bytes) / l.took.Seconds() }
func (l load) rate() float64      { return float64(l.requests) / l.took.Seconds() }

// A fetcher gets a file once and returns its size.
type fetcher func() (int64, error)

// runLoad has clients fetch again and again; each finishes what it has begun
// when the time is over.
func runLoad(t *testing.T, clients int, connect func(client int) (fetcher, io.Closer, error)) load {
	t.Helper()
	var mu sync.Mutex
	var sum load
	var wg sync.WaitGroup
	begun := time.Now()
	for i := range clients {
		wg.Go(func() {
			bytes, n, err := runClient(i, begun.Add(*benchPeriod), connect)
			mu.Lock()
			defer mu.Unlock()
			sum.bytes, sum.requests = sum.bytes+bytes, sum.requests+n
			if err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	sum.took = time.Since(begun)
	return sum
}

func runClient(client int, until time.Time, connect func(client int) (fetcher, io.Closer, error)) (bytes, n int64, err error) {
	get, closer, err := connect(client)
	if err != nil {
		return 0, 0, err
	}
	defer closer.Close()
	for time.Now().Before(until) {
		size, err := get()
		if err != nil {
			return bytes, n, err
		}
		bytes, n = bytes+size, n+1
	}
	return bytes, n, nil
}

func people(clients int) string {
	if clients == 1 {
		return "1 client"
	}
	return fmt.Sprintf("%d clients", clients)
}
