package dashboard

import (
	"errors"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/answer"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// maxManifest bounds the body of a what-if.
const maxManifest = 1 << 20

// maxWhatIfRows bounds the rows of a report, which has the worst first.
const maxWhatIfRows = 1000

type whatIfRequest struct {
	Manifest string         `json:"manifest"`
	Entity   string         `json:"entity"`
	Resource string         `json:"resource"`
	Limits   []answer.Limit `json:"limits"`
	Days     int            `json:"days"`
}

// WhatIf is a report about other limits, as JSON.
type WhatIf struct {
	*manifest.WhatIfReport
	More int `json:"more"` // rows that are left out
}

// whatIf replays usage against other limits.
func whatIf(c *call) (any, error) {
	var body whatIfRequest
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	if body.Manifest != "" && (body.Entity != "" || body.Resource != "" || body.Limits != nil) {
		return nil, badInput("body: give either a manifest, or an entity, a resource and limits")
	}
	if err := c.h.replays.enter(c.ctx); err != nil {
		return nil, err
	}
	defer c.h.replays.leave()
	report, err := c.replay(body)
	if err != nil {
		if wrong, ok := errors.AsType[*manifest.ParseError](err); ok {
			return nil, badInput("manifest: %s", wrong.Problems[0])
		}
		return nil, outage(err)
	}
	answer := WhatIf{WhatIfReport: report}
	if n := len(report.Rows); n > maxWhatIfRows {
		report.Rows, answer.More = report.Rows[:maxWhatIfRows], n-maxWhatIfRows
	}
	return answer, nil
}

func (c *call) replay(body whatIfRequest) (*manifest.WhatIfReport, error) {
	opts := &manifest.WhatIfOptions{Now: c.h.opts.Now, Days: body.Days}
	if body.Days < 0 {
		return nil, badInput("body: field days: must be 1 or more")
	}
	if body.Manifest == "" {
		limits, err := limitsOf(body.Limits)
		if err != nil {
			return nil, err
		}
		return manifest.WhatIfLimits(c.ctx, c.reads, limiter.Config{Scope: limiter.Scope{Entity: body.Entity, Resource: body.Resource}, Limits: limits}, opts)
	}
	m, err := manifest.Parse([]byte(body.Manifest))
	if err != nil {
		return nil, err
	}
	if m.Namespace != "" && m.Namespace != c.name {
		return nil, badInput("manifest: is of the namespace %q; this session sees %q", clip(m.Namespace), c.name)
	}
	m.Namespace = "" // of the view
	return manifest.WhatIf(c.ctx, c.reads, m, opts)
}

// limitsOf returns valid limits.
func limitsOf(all []answer.Limit) ([]limiter.Limit, error) {
	limits := make([]limiter.Limit, len(all))
	for i, l := range all {
		limit, err := limitOf(l)
		if err != nil {
			return nil, err
		}
		limits[i] = limit
	}
	return limits, nil
}
