package manifest

import (
	"cmp"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// decodeLimit reads a limit, in its long form or in its short one.
func (d *decoder) decodeLimit(key, n *yaml.Node, path string) limiter.Limit {
	if value := resolved(n); d.short && value.Kind == yaml.ScalarNode {
		switch value.ShortTag() {
		case tagInt, tagFloat:
			return d.decodeRate(key, value, path)
		case tagText:
			return d.decodeShort(key, value, path)
		}
	}
	return d.decodeLong(key, n, path)
}

// decodeRate reads a bare number, which is a rate per minute.
func (d *decoder) decodeRate(key, n *yaml.Node, path string) limiter.Limit {
	before := len(d.problems)
	limit := limiter.PerMinute(key.Value, d.number(n, path, bucket.MaxTokens))
	d.validate(key, path, limit, before)
	return limit
}

// burstOnly is a burst without a period, such as 100:15. Readers of YAML 1.1 take
// that for a number to the base of 60.
var burstOnly = regexp.MustCompile(`^[0-9]+:`)

const shortForms = "a limit is RATE, RATE/PERIOD, RATE/PERIOD:BURST or RATE/PERIOD:within[=BURST], such as 100/min:150, or a mapping"

// decodeShort reads what follows the name of a limit on the command line.
func (d *decoder) decodeShort(key, n *yaml.Node, path string) limiter.Limit {
	before := len(d.problems)
	if d.validate(key, path, limiter.PerMinute(key.Value, 1), before); len(d.problems) > before {
		return limiter.Limit{}
	}
	if burstOnly.MatchString(n.Value) {
		d.problem(n, path, "it is %q, but a burst has to follow a period; %s", clip(n.Value), shortForms)
		return limiter.Limit{}
	}
	limit, err := limiter.ParseLimit(key.Value + ":" + n.Value)
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		why, _, _ := strings.Cut(bad.Reason, "; a limit is ")
		d.problem(n, path, "it is %q, but %s; %s", clip(n.Value), why, shortForms)
	}
	return limit
}

// decodeLong reads a mapping. With a burst, that is the capacity, and what is
// called capacity is how much comes back, unless that is said too.
func (d *decoder) decodeLong(key, n *yaml.Node, path string) limiter.Limit {
	var capacity, burst, refill int64
	period := int64(time.Minute / time.Second)
	into := func(target *int64, most int64) func(*yaml.Node, string) {
		return func(n *yaml.Node, path string) { *target = d.number(n, path, most) }
	}
	fields := map[string]func(*yaml.Node, string){
		d.capacity: into(&capacity, bucket.MaxTokens), d.refillAmount: into(&refill, bucket.MaxTokens),
		d.refillPeriod: into(&period, int64(math.MaxInt64/time.Second)),
	}
	if d.burst != "" {
		fields[d.burst] = into(&burst, bucket.MaxTokens)
	}
	before := len(d.problems)
	if given := d.fields(n, path, fields); !slices.Contains(given, d.capacity) && len(d.problems) == before {
		d.problem(key, path, "%s is missing: how many tokens can be taken at once", d.capacity)
	}
	limit := limiter.Custom(key.Value, cmp.Or(burst, capacity), cmp.Or(refill, capacity), time.Duration(period)*time.Second)
	d.validate(key, path, limit, before)
	return limit
}

// validate adds what is wrong with a limit that had no problems so far.
func (d *decoder) validate(key *yaml.Node, path string, limit limiter.Limit, before int) {
	if len(d.problems) > before {
		return
	}
	if err := limit.Validate(); err != nil {
		d.problem(key, path, "%v", err)
	}
}

// clip keeps a problem readable.
func clip(text string) string {
	const most = 50
	if len(text) <= most {
		return text
	}
	return text[:most] + "..."
}
