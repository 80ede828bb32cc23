package boot

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestClockOffset(t *testing.T) {
	hits := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits++
		w.Header().Set("Date", time.Now().Add(-3*time.Hour).UTC().Format(http.TimeFormat))
		w.Header().Set("Location", "http://192.0.2.1/")
		w.WriteHeader(http.StatusFound)
	}))
	defer s.Close()
	off, err := clockOffset(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if off > -3*time.Hour+clockTolerance || off < -3*time.Hour-clockTolerance || hits != 1 {
		t.Errorf("the clock is off by %v after %d requests", off, hits)
	}
}

func TestClockOffsetWithoutDate(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header()["Date"] = []string{"yesterday"} }))
	defer s.Close()
	if off, err := clockOffset(t.Context(), s.URL); err == nil {
		t.Errorf("an answer without a date gave %v", off)
	}
}
