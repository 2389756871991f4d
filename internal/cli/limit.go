package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// units are those of a period, largest first.
var units = []struct {
	name string
	size time.Duration
}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"min", time.Minute}, {"sec", time.Second}}

// limitForms lists what --limit takes, as [limiter.ParseLimit] does.
const limitForms = "a limit is NAME:RATE[/PERIOD][:BURST], or NAME:RATE[/PERIOD]:within[=BURST] for at most RATE in every PERIOD, " +
	"where PERIOD is sec, min, hour or day, or several such as 5min, and a minute if left out; " +
	"for example rpm:100, tpm:10000/min:15000, tpm:10000/min:within or images:50/12hour"

// limitText is a limit as people read it: "tpm: 10,000/min (burst: 15,000)".
func limitText(l limiter.Limit) string {
	text := fmt.Sprintf("%s: %s", l.Name, rateText(l))
	if l.Capacity != l.Refill {
		text += fmt.Sprintf(" (burst: %s)", tty.Number(l.Capacity))
	}
	return text
}

// rateText is "10,000/min".
func rateText(l limiter.Limit) string { return tty.Number(l.Refill) + "/" + periodText(l.Period) }

// rate is how fast a limit refills: as people read it, and as -l takes it.
func rate(l limiter.Limit) cell {
	return cell{people: rateText(l), program: strconv.FormatInt(l.Refill, 10) + "/" + periodText(l.Period)}
}

// limitWord is a limit as --limit takes it.
func limitWord(l limiter.Limit) string {
	return fmt.Sprintf("%s:%d/%s:%d", l.Name, l.Refill, periodText(l.Period), l.Capacity)
}

// periodText names a period by the largest unit it is a multiple of.
func periodText(d time.Duration) string {
	for _, u := range units {
		switch {
		case d == u.size:
			return u.name
		case d%u.size == 0:
			return strconv.FormatInt(int64(d/u.size), 10) + u.name
		}
	}
	return d.String()
}

// limits collects the flags --limit.
type limits struct {
	all    []limiter.Limit
	within map[string]string // what a limit of the form within was meant to be, by its name
}

// text is the limits on one line. One of the form within also says what it was
// meant to be, since its rate and burst are other numbers than those given.
func (l *limits) text() string {
	texts := make([]string, len(l.all))
	for i, limit := range l.all {
		texts[i] = limitText(limit)
		if meant := l.within[limit.Name]; meant != "" {
			texts[i] += ", " + meant
		}
	}
	return strings.Join(texts, ", ")
}

// withinText is what a limit of the form within allows, such as "at most 10,000
// in any minute", else "". The limit has to be valid.
func withinText(text string) string {
	parts := strings.Split(text, ":")
	if len(parts) < 3 || !strings.HasPrefix(parts[2], "within") {
		return ""
	}
	limit, err := limiter.ParseLimit(parts[0] + ":" + parts[1])
	if err != nil {
		return ""
	}
	return fmt.Sprintf("at most %s in any %s", tty.Number(limit.Refill), periodWords(limit.Period))
}

// periodWords is a period in words: "minute", "5 minutes".
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

// String is empty: there is no default.
func (l *limits) String() string { return "" }

// Type is what the argument is called.
func (l *limits) Type() string { return "limit" }

// Set adds one.
func (l *limits) Set(text string) error {
	limit, err := limiter.ParseLimit(text)
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return &valueError{fmt.Sprintf("--limit is %q, but %s", bad.Value, bad.Reason)}
	}
	for _, other := range l.all {
		if other.Name == limit.Name {
			return &valueError{fmt.Sprintf("--limit %q: %s is given twice; give each limit once", clip(text), limit.Name)}
		}
	}
	l.all = append(l.all, limit)
	if meant := withinText(text); meant != "" {
		if l.within == nil {
			l.within = map[string]string{}
		}
		l.within[limit.Name] = meant
	}
	return nil
}

// limitColumns and limitRow show stored limits.
var limitColumns = []column{{title: "limit"}, {title: "rate", right: true}, {title: "burst", right: true}}

func limitRow(l limiter.Limit) []cell {
	return []cell{text(l.Name), rate(l), number(l.Capacity)}
}

// limitShape is a limit as JSON.
type limitShape struct {
	Name     string `json:"name" doc:"of the limit"`
	Capacity int64  `json:"capacity" doc:"tokens that can be taken at once (burst)"`
	Refill   int64  `json:"refill_amount" doc:"tokens that come back every period"`
	Seconds  int64  `json:"refill_period_seconds" doc:"length of the period"`
}

func limitObject(l limiter.Limit) limitShape {
	return limitShape{l.Name, l.Capacity, l.Refill, int64(l.Period / time.Second)}
}

func limitObjects(all []limiter.Limit) []limitShape {
	objects := make([]limitShape, len(all))
	for i, l := range all {
		objects[i] = limitObject(l)
	}
	return objects
}

// limitListing prints stored limits.
func limitListing(nothing string) listing[limiter.Limit] {
	return listing[limiter.Limit]{limitColumns, limitRow, func(l limiter.Limit) any { return limitObject(l) }, nothing}
}
