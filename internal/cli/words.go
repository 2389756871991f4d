package cli

import "github.com/zeroae/zae-limiter-go/internal/cli/tty"

// count is "1 limit" or "1,200 limits".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return tty.Number(int64(n)) + " " + noun
}
