package jsonview

import (
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// Fields returns the fields that describe the limits of d to clients of a server,
// which cannot configure units: limits that do not count requests say so.
func Fields(d limiter.Decision) *httplimit.Fields {
	var units map[string]string
	for i := range d.Statuses {
		name := d.Statuses[i].Limit.Name
		if unit := unit(name); unit != "" {
			if units == nil {
				units = make(map[string]string, len(d.Statuses))
			}
			units[name] = unit
		}
	}
	return &httplimit.Fields{Units: units}
}

// unit returns what a limit of this name counts, or "" for requests. Names such as
// rpm and requests_per_day count requests. Limits such as spend and spend_daily
// count millionths of a dollar. Everything else counts tokens.
func unit(name string) string {
	switch {
	case len(name) == 3 && strings.HasPrefix(name, "rp") && strings.ContainsAny(name[2:], "smhdwy"):
		return ""
	case strings.HasPrefix(name, "request") || strings.HasPrefix(name, "call"):
		return ""
	case figure.IsMoney(name):
		return "usd-millionths"
	case strings.HasPrefix(name, "bytes"):
		return "content-bytes"
	}
	return "tokens"
}
