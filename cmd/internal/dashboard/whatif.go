package dashboard

import (
	"errors"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// maxManifest bounds the body of a what-if.
const maxManifest = 1 << 20

// maxWhatIfRows bounds the rows of a report, which has the worst first.
const maxWhatIfRows = 1000

type whatIfRequest struct {
	Manifest *string          `json:"manifest"`
	Entity   string           `json:"entity"`
	Resource string           `json:"resource"`
	Limits   []jsonview.Limit `json:"limits"`
	Days     int              `json:"days"`
}

// WhatIf is a report about other limits, as JSON.
type WhatIf struct {
	*manifest.WhatIfReport
	// More counts the rows that are left out.
	More int `json:"more"`
	// Warnings says which proposed limits are probably mistakes.
	Warnings []string `json:"warnings"`
}

// whatIf replays usage against other limits.
func whatIf(c *call, body whatIfRequest) (any, error) {
	if err := body.check(); err != nil {
		return nil, err
	}

	// A replay reads up to 100,000 snapshots, so that few run at a time.
	select {
	case c.h.replays <- struct{}{}:
		defer func() { <-c.h.replays }()
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}

	answer, err := c.replay(body)
	if err != nil {
		if wrong, ok := errors.AsType[*manifest.ParseError](err); ok {
			return nil, web.Bad("manifest: %s", wrong.Problems[0])
		}

		return nil, outage(err)
	}

	if n := len(answer.Rows); n > maxWhatIfRows {
		answer.Rows, answer.More = answer.Rows[:maxWhatIfRows], n-maxWhatIfRows
	}

	return answer, nil
}

// check rejects a request that proposes nothing, or two things. Limits may be empty
// at a level of an entity or a resource, which then would have none.
func (w *whatIfRequest) check() error {
	scoped := w.Entity != "" || w.Resource != ""

	switch {
	case w.Manifest != nil && (scoped || w.Limits != nil):
		return web.Bad("body: give either a manifest, or an entity, a resource and limits")
	case w.Manifest != nil && strings.TrimSpace(*w.Manifest) == "":
		return web.Bad("body: field manifest: is empty; give the limits to try")
	case w.Manifest == nil && (w.Limits == nil || len(w.Limits) == 0 && !scoped):
		return web.Bad("body: give a manifest, or limits with the entity and the resource that they are for")
	case w.Days < 0:
		return web.Bad("body: field days: must be 1 or more")
	case len(w.Limits) > maxLimits:
		return web.Bad("body: field limits: must have at most %d limits", maxLimits)
	}

	return nil
}

func (c *call) replay(body whatIfRequest) (v WhatIf, err error) {
	opts := &manifest.WhatIfOptions{Now: c.h.opts.Now, Days: body.Days}

	if body.Manifest == nil {
		limits, err := limitsOf(body.Limits)
		if err != nil {
			return v, err
		}

		v.Warnings = centWarnings(limits)
		v.WhatIfReport, err = manifest.WhatIfLimits(c.ctx, c.repo,
			limiter.Config{Scope: limiter.Scope{Entity: body.Entity, Resource: body.Resource}, Limits: limits},
			opts)
		return v, err
	}

	m, err := manifest.Parse([]byte(*body.Manifest))
	if err != nil {
		return v, err
	}

	if m.Namespace != "" && m.Namespace != c.name {
		return v, web.Bad("manifest: is of the namespace %q; this session sees %q", web.Clip(m.Namespace), c.name)
	}
	// The view has its namespace already.
	m.Namespace = ""

	var limits []limiter.Limit
	for _, level := range m.Levels {
		limits = append(limits, level.Limits...)
	}
	v.Warnings = centWarnings(limits)
	v.Warnings = v.Warnings[:min(len(v.Warnings), maxLimits)]

	v.WhatIfReport, err = manifest.WhatIf(c.ctx, c.repo, m, opts)
	return v, err
}

// limitsOf returns valid limits.
func limitsOf(all []jsonview.Limit) ([]limiter.Limit, error) {
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
