package kit

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// units are the units of a period, largest first.
var units = []struct {
	name string
	size time.Duration
}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"min", time.Minute}, {"sec", time.Second}}

// LimitForms shows the usual forms of --limit, which [limiter.ParseLimit] parses.
const LimitForms = "a limit is NAME:RATE[/PERIOD][:BURST], such as rpm:100 or tpm:10k/min:15k, " +
	"or NAME:CAPACITY@WINDOW, such as tokens:1M@month or 'spend:$50@month'; " +
	`"zae-limiter help entity set-limits" explains all forms`

// shortReason shortens the reason of [limiter.ParseLimit] for the command line. It
// drops the list of all forms, and the advice to import time/tzdata, which is for
// programs that use the library.
func shortReason(reason string) string {
	reason, _, _ = strings.Cut(reason, "; a limit is NAME:")
	return strings.Replace(reason, ", and import time/tzdata where the system has no zone data", "",
		1) + "; " + LimitForms
}

// LimitText returns a limit for a message: "tpm: 10,000/min (burst: 15,000)".
func LimitText(l limiter.Limit) string {
	text := fmt.Sprintf("%s: %s", l.Name, Rate(l).Display)
	if !l.IsQuota() && l.Capacity != l.Refill {
		text += fmt.Sprintf(" (burst: %s)", tty.Amount(l.Name, l.Capacity))
	}
	if l.IsShadow {
		text += " (shadow)"
	}

	return text
}

// Rate returns the cell of a limit's rate, "10,000/min", or of its quota,
// "1,000@day:Europe/Berlin"; in a line it has the form of --limit.
func Rate(l limiter.Limit) Cell {
	n, per := Amount(l.Name, l.Refill), "/"+figure.Period(l.Period)
	if l.IsQuota() {
		n, per = Amount(l.Name, l.Capacity), "@"+windowText(l)
	}
	return Cell{Display: n.Display + per, Plain: n.Plain + per}
}

// windowText returns the window of a quota: "month", "day:Europe/Berlin".
func windowText(l limiter.Limit) string {
	if l.Zone == "" {
		return l.Window.String()
	}
	return l.Window.String() + ":" + l.Zone
}

// LimitWord returns a limit in the form of --limit.
func LimitWord(l limiter.Limit) string {
	word := l.Name + ":" + Rate(l).Plain
	if !l.IsQuota() {
		word += ":" + strconv.FormatInt(l.Capacity, 10)
	}
	if l.IsShadow {
		word += ":shadow"
	}

	return word
}

// WarnCents warns of limits of money below a cent, which are mostly mistakes. A
// number without a dollar sign counts millionths, so spend:50@month is 50 millionths
// of a dollar, and a shell replaces the $5 of an unquoted spend:$50@month.
func (c *Console) WarnCents(limits []limiter.Limit) {
	for _, l := range limits {
		how := fmt.Sprintf("in quotes for a shell, such as '%s:$50@month'", l.Name)
		if warning := figure.CentWarning(l.Name, LimitText(l), how, l.Capacity, l.Refill); warning != "" {
			c.Warn("%s", warning)
		}
	}
}

// LimitFlags collects the values of the repeatable flag --limit.
type LimitFlags struct {
	All    []limiter.Limit
	within map[string]string // withinText of a limit, by name
}

// Describe returns the limits on one line. For the form within it adds what the
// limit allows, since its rate and burst differ from the numbers given.
func (l *LimitFlags) Describe() string {
	texts := make([]string, len(l.All))
	for i, limit := range l.All {
		texts[i] = LimitText(limit)
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
func (l *LimitFlags) String() string { return "" }

// Type returns the name of the argument in the help.
func (l *LimitFlags) Type() string { return "limit" }

// Set adds a limit.
func (l *LimitFlags) Set(text string) error {
	limit, err := limiter.ParseLimit(text)
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return InvalidFlag("limit", bad.Value, shortReason(bad.Reason))
	}

	for _, other := range l.All {
		if other.Name == limit.Name {
			return InvalidFlag("limit", text, limit.Name+" is given twice; give each limit once")
		}
	}

	l.All = append(l.All, limit)

	if allowed := withinText(text); allowed != "" {
		if l.within == nil {
			l.within = map[string]string{}
		}
		l.within[limit.Name] = allowed
	}

	return nil
}
