package cli

import (
	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// meterOf returns a function that counts the requests to a table, or nil if repo
// is another store.
func meterOf(repo limiter.Repository) func() loadtest.Usage {
	table, ok := repo.(*dynamo.Repository)
	if !ok {
		return nil
	}

	return func() loadtest.Usage {
		s := table.Stats()
		return loadtest.Usage{Requests: s.Requests, ReadUnits: s.ReadUnits, WriteUnits: s.WriteUnits}
	}
}
