package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

func BenchmarkAcquire(b *testing.B) {
	repo := memory.New(nil)
	lim, err := limiter.New(repo, nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := lim.SetSystemDefaults(
		b.Context(), limiter.Custom("rpm", 1e12, 1e6, time.Minute),
		limiter.Custom("tpm", 1e12, 1e6, time.Minute),
	); err != nil {
		b.Fatal(err)
	}
	s, err := New(repo, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "http://localhost/v1/acquire",
			strings.NewReader(`{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":1,"tpm":500},"commit":true}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}
