package escrow_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// sharing holds nothing, so answers are exact.
var sharing = &escrow.Options{MaxHold: -1}

func TestRepository(t *testing.T) {
	repotest.Run(t, func(*testing.T) limiter.Repository { return escrow.New(memory.New(nil), sharing) }, "usage")
}

func TestCompare(t *testing.T) {
	for seed := range uint64(6) {
		repotest.Compare(t, seed, 2000, memory.New(nil), escrow.New(memory.New(nil), sharing))
	}
}
