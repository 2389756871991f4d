// Command zae-limiter looks at and steers a rate limiter. See zae-limiter --help.
package main

import (
	"os"

	"github.com/zeroae/zae-limiter-go/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
