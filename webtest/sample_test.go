package webtest

import (
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// sample is a store as a gateway for language models would leave it: two
// customers with keys, limits at all levels, and usage of some days. It is made
// once, and each test works on a copy.
var sample struct {
	once    sync.Once
	content []byte
}

// newSample returns a copy of the sample.
func newSample(t *testing.T) *store {
	t.Helper()
	sample.once.Do(func() { sample.content = makeSample(t) })
	if sample.content == nil {
		t.Fatal("the sample could not be made; see the first test that needed it")
	}
	path := filepath.Join(t.TempDir(), "gateway.db")
	if err := os.WriteFile(path, sample.content, 0o600); err != nil {
		t.Fatal(err)
	}
	return openStore(t, path)
}

func makeSample(t *testing.T) []byte {
	t.Helper()
	s := newStore(t)
	now := time.Now()
	s.now = now.Add(-6 * 24 * time.Hour)
	s.limits("", "", limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 100_000))
	s.limits("", "gpt-4", limiter.PerMinute("rpm", 500), limiter.PerMinute("tpm", 300_000))
	s.limits("", "claude-sonnet", limiter.PerMinute("rpm", 400), limiter.PerMinute("tpm", 400_000))
	for _, org := range []limiter.Entity{
		{
			ID: "org-acme", Name: "Acme Robotics",
			Metadata: map[string]string{"plan": "enterprise", "owner": "ada@acme.example"},
		},
		{ID: "org-umbra", Name: "Umbra Labs", Metadata: map[string]string{"plan": "team"}},
	} {
		s.entity(org)
		s.limits(org.ID, "", limiter.PerMinute("rpm", 2_000), limiter.PerMinute("tpm", 2_000_000))
	}
	for _, key := range []limiter.Entity{
		{ID: "key-acme-batch", Name: "Batch jobs", Parent: "org-acme"},
		{ID: "key-acme-web", Name: "Web assistant", Parent: "org-acme"},
		{ID: "key-umbra-lab", Name: "Notebook", Parent: "org-umbra"},
	} {
		key.Cascade = true
		s.entity(key)
	}
	s.limits("key-acme-batch", "gpt-4", limiter.PerMinute("rpm", 120),
		limiter.PerMinute("tpm", 200_000).WithBurst(400_000))
	s.limits("key-umbra-lab", "", limiter.PerMinute("rpm", 30), limiter.PerMinute("tpm", 20_000))
	for ; s.now.Before(now); s.now = s.now.Add(time.Hour) {
		day := 1 + math.Sin(float64(s.now.Hour())/24*2*math.Pi-2)
		s.use("key-acme-web", "gpt-4", requests(20+int64(140*day), 410))
		s.use("key-acme-batch", "gpt-4", requests(5+int64(30*day), 2_900))
		if s.now.Hour()%3 == 0 {
			s.use("key-acme-web", "claude-sonnet", requests(10+int64(60*day), 620))
			s.use("key-umbra-lab", "gpt-4", requests(1+int64(4*day), 800))
		}
	}
	s.now = now
	s.use("key-acme-web", "gpt-4", requests(190, 410))
	s.use("key-acme-batch", "gpt-4", requests(83, 2_900))
	s.use("key-acme-web", "claude-sonnet", requests(12, 620))
	s.use("key-umbra-lab", "gpt-4", requests(29, 800))
	s.must(s.repo.Close())
	content, err := os.ReadFile(s.path)
	s.must(err)
	return content
}

// requests returns what n requests of some tokens each use.
func requests(n, tokens int64) limiter.Amounts {
	return limiter.Tokens("rpm", n).And("tpm", n*tokens)
}
