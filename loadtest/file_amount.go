package loadtest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// plannedAmount is a number of tokens, uniform between least and most.
type plannedAmount struct {
	limit       string
	least, most int64
	line        int
}

// amountRange matches a range of amounts.
var amountRange = regexp.MustCompile(`^(0|[1-9][0-9]{0,11})\.\.(0|[1-9][0-9]{0,11})$`)

// decodeAmounts reads amounts by limit.
func (d *decoder) decodeAmounts(n yamlfile.Node) (amounts []plannedAmount) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		d.Problem(n, "must be at least one amount, such as {rpm: 1}")
	}

	d.Entries(n, func(key, n yamlfile.Node) {
		limit := key.Value
		// Only the name is checked here, so the numbers are placeholders.
		if err := limiter.PerMinute(limit, 1).Validate(); err != nil {
			d.Problem(key, "%v", err)
		}
		least, most := d.decodeAmount(n)
		amounts = append(amounts, plannedAmount{limit, least, most, key.Line})
	})
	return amounts
}

// decodeAmount reads a whole number of tokens, or a range of them.
func (d *decoder) decodeAmount(n yamlfile.Node) (least, most int64) {
	found := amountRange.FindStringSubmatch(n.Value)
	switch {
	case n.IsWhole():
		found = []string{"", n.Value, n.Value}
	case !n.Is(yamlfile.Text) || found == nil:
		d.Problem(n, "must be a whole number of tokens such as 500, or a range such as 200..2000, not %s",
			d.Describe(n))
		return 0, 0
	}

	least, _ = strconv.ParseInt(found[1], 10, 64)
	if most, _ = strconv.ParseInt(found[2], 10, 64); least > most {
		d.Problem(n, "the range %s begins above its end; write the smaller number first", n.Value)
	}
	return least, most
}

// checkAmounts reports amounts of limits that no level defines, and real amounts
// without an estimate.
func (d *decoder) checkAmounts(p *plan) {
	for _, class := range p.classes {
		for _, task := range class.tasks {
			where := fmt.Sprintf("classes.%s.tasks.%s", class.name, task.name)
			// A lease adjusts only limits that it took, so each real amount
			// needs an estimate.
			for _, used := range task.used {
				if !slices.ContainsFunc(task.consume, func(c plannedAmount) bool { return c.limit == used.limit }) {
					d.Problems = append(d.Problems, yamlfile.Problem{
						Line: used.line,
						Text: where + ".used: " + used.limit + " has no estimate; add it to consume, such as " +
							"consume: {" + used.limit + ": 1}",
					})
				}
			}

			for _, choice := range task.resources {
				d.checkLimits(p, where, choice, task.consume)
			}
		}
	}
}

// checkLimits reports amounts that no limit of the resource covers.
func (d *decoder) checkLimits(p *plan, where string, choice weighted, amounts []plannedAmount) {
	report := func(line int, format string, args ...any) {
		d.Problems = append(d.Problems, yamlfile.Problem{Line: line, Text: where + fmt.Sprintf(format, args...)})
	}

	names := p.limitNames(choice.resource)
	if len(names) == 0 {
		report(choice.line, ": resource %s has no limits; add them, such as resources: {%s: {limits: {rpm: 100}}}",
			choice.resource, choice.resource)
		return
	}

	for _, a := range amounts {
		if !slices.Contains(names, a.limit) {
			report(a.line, ".consume: resource %s has no limit %s; its limits are %s", choice.resource, a.limit,
				strings.Join(names, ", "))
		}
	}
}
