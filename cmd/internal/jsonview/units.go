package jsonview

import (
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// Fields returns the fields that describe the limits of d to clients of a server,
// which cannot configure units: limits that count tokens, money or bytes say so.
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

// unit returns what a limit of this name counts. Names such as tpm, itpm, otpd and
// input_tokens count tokens. Limits such as spend and spend_daily count millionths of
// a dollar. It returns "" for requests, and for names that do not say what they
// count, such as widgets.
func unit(name string) string {
	lower := strings.ToLower(name)
	switch {
	case figure.IsMoney(name):
		return "usd-millionths"
	case strings.HasPrefix(lower, "bytes"):
		return "content-bytes"
	case strings.Contains(lower, "token") || countsTokensPer(lower):
		return "tokens"
	}
	return ""
}

// countsTokensPer reports whether a name is one such as tpm: the tokens per second,
// minute, hour, day, week, month or year. An i or o before it stands for input or
// output.
func countsTokensPer(name string) bool {
	period, found := strings.CutPrefix(strings.TrimLeft(name, "io"), "tp")
	return found && len(name) <= len("itpm") && len(period) == 1 && strings.ContainsAny(period, "smhdwy")
}
