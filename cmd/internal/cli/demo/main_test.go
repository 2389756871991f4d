package demo_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/clitest"
)

// TestMain makes the program a command of the tests.
func TestMain(m *testing.M) {
	clitest.Main(m, nil)
}
