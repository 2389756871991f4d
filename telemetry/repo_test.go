package telemetry_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

func TestRepository(t *testing.T) {
	repotest.Run(t, func(t *testing.T) limiter.Repository {
		t.Helper()
		return newRig(t, memory.New(nil), nil).Repository
	})
}

func TestCompare(t *testing.T) {
	repotest.Compare(t, 1, 2000, memory.New(nil), newRig(t, memory.New(nil), nil).Repository)
}
