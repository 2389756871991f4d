package sqlite_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/repotest"
)

func TestRepository(t *testing.T) {
	repotest.Run(t, func(t *testing.T) limiter.Repository {
		t.Helper()
		return open(t, "", nil)
	})
}
