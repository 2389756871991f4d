package memory_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

func TestRepository(t *testing.T) {
	t.Parallel()
	repotest.Run(t, func(*testing.T) limiter.Repository { return memory.New(nil) })
}
