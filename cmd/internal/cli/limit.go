package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// units are the units of a period, largest first.
var units = []struct {
	name string
	size time.Duration
}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"min", time.Minute}, {"sec", time.Second}}

// limitForms shows the usual forms of --limit, which [limiter.ParseLimit] parses.
const limitForms = "a limit is NAME:RATE[/PERIOD][:BURST], such as rpm:100 or tpm:10k/min:15k, " +
	"or NAME:CAPACITY@WINDOW, such as tokens:1M@month or 'spend:$50@month'; " +
	`"zae-limiter help entity set-limits" explains all forms`

// shortReason shortens the reason of [limiter.ParseLimit] for the command line. It
// drops the list of all forms, and the advice to import time/tzdata, which is for
// programs that use the library.
func shortReason(reason string) string {
	reason, _, _ = strings.Cut(reason, "; a limit is NAME:")
	return strings.Replace(reason, ", and import time/tzdata where the system has no zone data", "",
		1) + "; " + limitForms
}

// limitText returns a limit for a message: "tpm: 10,000/min (burst: 15,000)".
func limitText(l limiter.Limit) string {
	text := fmt.Sprintf("%s: %s", l.Name, rate(l).display)
	if !l.IsQuota() && l.Capacity != l.Refill {
		text += fmt.Sprintf(" (burst: %s)", tty.Amount(l.Name, l.Capacity))
	}
	if l.IsShadow {
		text += " (shadow)"
	}

	return text
}

// rate returns the cell of a limit's rate, "10,000/min", or of its quota,
// "1,000@day:Europe/Berlin"; in a line it has the form of --limit.
func rate(l limiter.Limit) cell {
	n, per := amount(l.Name, l.Refill), "/"+figure.Period(l.Period)
	if l.IsQuota() {
		n, per = amount(l.Name, l.Capacity), "@"+windowText(l)
	}
	return cell{display: n.display + per, plain: n.plain + per}
}

// windowText returns the window of a quota: "month", "day:Europe/Berlin".
func windowText(l limiter.Limit) string {
	if l.Zone == "" {
		return l.Window.String()
	}
	return l.Window.String() + ":" + l.Zone
}

// limitWord returns a limit in the form of --limit.
func limitWord(l limiter.Limit) string {
	word := l.Name + ":" + rate(l).plain
	if !l.IsQuota() {
		word += ":" + strconv.FormatInt(l.Capacity, 10)
	}
	if l.IsShadow {
		word += ":shadow"
	}

	return word
}

// kindColumns are the columns of limits that are not plain rates.
//
// A shadow limit must not look like an enforced one, so its mark is kept. A narrow
// terminal leaves out the end of a window, since the time until the bucket is full
// says roughly the same.
var kindColumns = []column{{title: "mode", whole: true, keep: true, extra: true}, {
	title: "window end", whole: true, spare: true, extra: true,
}}

// kindCells returns the cells of kindColumns.
func kindCells(s limiter.Status) []cell { return []cell{mode(s.Limit), moment(s.WindowEnd)} }

// mode returns the cell that marks a shadow limit.
func mode(l limiter.Limit) cell {
	if l.IsShadow {
		return text("shadow")
	}
	return text("")
}

// warnCents warns of limits of money below a cent, which are mostly mistakes. A
// number without a dollar sign counts millionths, so spend:50@month is 50 millionths
// of a dollar, and a shell replaces the $5 of an unquoted spend:$50@month.
func (c *console) warnCents(limits []limiter.Limit) {
	for _, l := range limits {
		if l.IsMoney() && max(l.Capacity, l.Refill) < figure.Cent {
			c.warn(
				"%s is below a cent; if you mean dollars, give them with their sign, in quotes for a shell, "+
					"such as '%s:$50@month'",
				limitText(l), l.Name,
			)
		}
	}
}

// limitFlags collects the values of the repeatable flag --limit.
type limitFlags struct {
	all    []limiter.Limit
	within map[string]string // withinText of a limit, by name
}

// describe returns the limits on one line. For the form within it adds what the
// limit allows, since its rate and burst differ from the numbers given.
func (l *limitFlags) describe() string {
	texts := make([]string, len(l.all))
	for i, limit := range l.all {
		texts[i] = limitText(limit)
		if allowed := l.within[limit.Name]; allowed != "" {
			texts[i] += ", " + allowed
		}
	}
	return strings.Join(texts, ", ")
}

// withinText returns what a valid limit of the form within allows, such as "at
// most 10,000 in any minute", or "" for other forms.
func withinText(text string) string {
	parts := strings.Split(text, ":")
	if len(parts) < 3 || !strings.HasPrefix(parts[2], "within") {
		return ""
	}
	// The limit without its third part has the rate that the user gave. That of
	// the whole limit is lower: tpm:10000/min:within refills 9,000.
	limit, err := limiter.ParseLimit(parts[0] + ":" + parts[1])
	if err != nil {
		return ""
	}

	return fmt.Sprintf("at most %s in any %s", tty.Amount(limit.Name, limit.Refill), periodWords(limit.Period))
}

// periodWords returns a period in words: "minute", "5 minutes".
func periodWords(d time.Duration) string {
	for _, u := range units {
		if n := int64(d / u.size); d%u.size == 0 {
			word := map[string]string{"min": "minute", "sec": "second"}[u.name]
			if word = cmp.Or(word, u.name); n > 1 {
				word = tty.Number(n) + " " + word + "s"
			}
			return word
		}
	}
	return d.String()
}

// String returns "", since there is no default.
func (l *limitFlags) String() string { return "" }

// Type returns the name of the argument in the help.
func (l *limitFlags) Type() string { return "limit" }

// Set adds a limit.
func (l *limitFlags) Set(text string) error {
	limit, err := limiter.ParseLimit(text)
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return invalidFlag("limit", bad.Value, shortReason(bad.Reason))
	}

	for _, other := range l.all {
		if other.Name == limit.Name {
			return invalidFlag("limit", text, limit.Name+" is given twice; give each limit once")
		}
	}

	l.all = append(l.all, limit)

	if allowed := withinText(text); allowed != "" {
		if l.within == nil {
			l.within = map[string]string{}
		}
		l.within[limit.Name] = allowed
	}

	return nil
}

// limitColumns are the columns of stored limits.
var limitColumns = []column{
	{title: "limit"}, {title: "rate", right: true}, {title: "burst", right: true}, kindColumns[0],
}

func limitRow(l limiter.Limit) []cell {
	return []cell{text(l.Name), rate(l), amount(l.Name, l.Capacity), mode(l)}
}

// limitListing describes how to print stored limits.
func limitListing(nothing string) listing[limiter.Limit] {
	return listing[limiter.Limit]{limitColumns, limitRow, func(l limiter.Limit) any {
		return jsonview.NewLimit(l)
	}, nothing}
}
