package limiter

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

const limitForms = "a limit is NAME:RATE[/PERIOD][:BURST], or NAME:RATE[/PERIOD]:within[=BURST] for at most " +
	"RATE in every PERIOD, " +
	"where PERIOD is sec, min, hour or day, or several such as 5min, and a minute if left out; " +
	"a quota is NAME:CAPACITY@WINDOW[:ZONE], where WINDOW is hour, day, week, month or year; :shadow at the " +
	"end of either makes it a shadow limit; " +
	"numbers may end in k, M, G or T, and limits named spend count dollars; " +
	"for example rpm:100, tpm:10k/min:15k, tpm:10000/min:within, images:50/12hour, tokens:1M@month or " +
	"spend:$50@month:Europe/Berlin"

// ParseLimit parses a limit in the form of the command line and of manifests:
//
//	rpm:100                      100 a minute, and 100 at once
//	tpm:10000/min:15000          10,000 a minute, and 15,000 at once
//	images:50/12hour             50 in 12 hours
//	tpm:10000/min:within         Within("tpm", 10_000, time.Minute)
//	tpm:10000/min:within=2000    WithinBurst("tpm", 10_000, 2_000, time.Minute)
//	tokens:1000000@month         Quota("tokens", 1_000_000, EveryMonth)
//	tpm:10k/min                  PerMinute("tpm", 10_000)
//	spend:$50@day:Europe/Berlin  Quota("spend", 50_000_000, EveryDay).In("Europe/Berlin")
//	rpm:100:shadow               PerMinute("rpm", 100).Shadow()
//
// A number may end in k, M, G or T, for thousands, millions, thousands of millions
// and millions of millions; K is the same as k.
// Dollars are for limits that count money: see [Limit.IsMoney].
//
// The period is sec, min, hour or day, with an optional count. The error is an
// *[InvalidError] whose reason lists the forms.
func ParseLimit(text string) (Limit, error) {
	limit, why := parseLimit(text)
	if why == "" {
		if bad := limit.Validate(); bad != nil {
			why = bad.Error()
		}
	}

	if why != "" {
		return Limit{}, invalid("limit", text, strings.TrimPrefix(why+"; "+limitForms, "; "))
	}
	return limit, nil
}

// parseLimit parses a limit without validating it. It returns the reason if text
// has no valid form.
func parseLimit(text string) (limit Limit, why string) {
	text, shadow := strings.CutSuffix(text, ":shadow")
	parts := strings.Split(text, ":")
	switch quota := len(parts) > 1 && strings.Contains(parts[1], "@"); {
	case len(parts) < 2:
		return limit, "it has no rate"
	case quota && len(parts) > 3:
		return limit, "nothing may follow its zone but shadow"
	case len(parts) > 3:
		return limit, "nothing may follow its burst but shadow"
	case quota && len(parts) == 3 && parts[2] == "":
		return limit, "its zone is empty"
	case quota:
		limit, why = parseQuota(parts[0], parts[1], strings.Join(parts[2:], ""))
	default:
		limit, why = parseRate(parts)
	}

	limit.IsShadow = shadow
	return limit, why
}

// parseRate parses the two or three parts of a rate.
func parseRate(parts []string) (limit Limit, why string) {
	rate, unit, hasPeriod := strings.Cut(parts[1], "/")

	period := time.Minute
	if hasPeriod {
		var ok bool
		if period, ok = parsePeriod(unit); !ok {
			return limit, fmt.Sprintf("its period %q is not valid", truncate(unit))
		}
	}

	n, why := parseTokens(parts[0], "rate", rate)
	if why != "" || len(parts) == 2 {
		return Custom(parts[0], n, n, period), why
	}

	word, burst, hasBurst := strings.Cut(parts[2], "=")
	switch {
	case word != "within":
		capacity, why := parseTokens(parts[0], "burst", parts[2])
		return Custom(parts[0], capacity, n, period), why
	case !hasBurst:
		return Within(parts[0], n, period), ""
	}

	capacity, why := parseTokens(parts[0], "burst", burst)
	if why == "" && capacity > n {
		why = fmt.Sprintf("its burst %s is above %s, the most that its period allows",
			figure.Amount(parts[0], capacity), figure.Amount(parts[0], n))
	}
	return WithinBurst(parts[0], n, capacity, period), why
}

// parseTokens parses a number of tokens of the limit name.
func parseTokens(name, what, text string) (n int64, why string) {
	n, why = figure.Parse(name, text)
	switch {
	case why != "":
	case n < 1 && figure.IsMoney(name):
		why = "is not above $0; put dollars in quotes for a shell"
	case n < 1 || n > bucket.MaxTokens:
		why = fmt.Sprintf("is not from 1 to %d", int64(bucket.MaxTokens))
	}

	if why != "" {
		return 0, fmt.Sprintf("its %s %q %s", what, truncate(text), truncateTo(why, maxPrinted))
	}
	return n, ""
}

// parseCount parses a positive number without a sign or leading zeros.
func parseCount(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && text[0] >= '1' && text[0] <= '9'
}

// parsePeriod parses [COUNT]UNIT.
func parsePeriod(text string) (time.Duration, bool) {
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"min", time.Minute}, {"sec", time.Second}} {
		count, ok := strings.CutSuffix(text, u.name)
		switch {
		case !ok:
			continue
		case count == "":
			return u.size, true
		}

		n, ok := parseCount(count)
		return time.Duration(n) * u.size, ok && n <= int64(1<<63-1)/int64(u.size)
	}
	return 0, false
}
