package dynamo

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// storedLimit is one limit of a bucket, as its item has it.
type storedLimit struct {
	name string
	// The numbers of the item, and the window of a quota.
	rate bucket.Rate
	// As the item has them.
	tokens int64
	// The start of the window that the tokens of a quota belong to.
	start int64
	// The largest capacity of that window, 0 if that is the present one.
	peak int64
	// How much of the use in that window the tokens do not show.
	hidden int64
	// By how much the tokens have to move, because the capacity was changed
	// without them.
	shift int64
	// The stored text that peak, hidden and shift come from; see peakText.
	peaks string
	// The zone and the calendar of a quota.
	zone   string
	every  limiter.Calendar
	shadow bool
	// Which fields of quotas and shadow limits the item has.
	extras extras
}

// extras is a set of the fields that only quotas and shadow limits have.
type extras uint8

const (
	hasWindow extras = 1 << iota
	hasStart
	hasShadow
	hasSpared
	hasPeak
	hasLeft
)

// extraOf returns the set of one field, empty for a field that every limit has.
func extraOf(field string) extras {
	switch field {
	case fieldWindow:
		return hasWindow
	case fieldStart:
		return hasStart
	case fieldShadow:
		return hasShadow
	case fieldSpared:
		return hasSpared
	case fieldPeak:
		return hasPeak
	case fieldLeft:
		return hasLeft
	}
	return 0
}

// fields returns the names of the fields in the set.
func (e extras) fields() (fields []string) {
	for _, field := range []string{fieldWindow, fieldStart, fieldShadow, fieldSpared, fieldPeak, fieldLeft} {
		if e&extraOf(field) != 0 {
			fields = append(fields, field)
		}
	}
	return fields
}

// Python knows no quotas. To its clients the stored rate of one gains a token
// in 285 years.
const (
	quotaAmount  = 1
	quotaSeconds = 9_000_000_000
)

// rateOf returns how a limit is stored, in millitokens and milliseconds.
func rateOf(l limiter.Limit) bucket.Rate {
	r := rules.RateOf(l)
	if l.Window != 0 {
		r.Amount, r.Period = quotaAmount*bucket.Milli, quotaSeconds*bucket.Milli
	}
	return r
}

// decodeStored decodes one limit of a bucket, without the fields of quotas and shadow
// limits.
func decodeStored(it item, name string) (c storedLimit, err error) {
	c.name = name
	for _, part := range []struct {
		field string
		to    *int64
	}{
		{fieldTokens, &c.tokens},
		{fieldCapacity, &c.rate.Capacity},
		{fieldAmount, &c.rate.Amount},
		{fieldPeriod, &c.rate.Period},
		// The total is only checked: the table cannot add to what is not a
		// number.
		{fieldTotal, new(int64)},
	} {
		if *part.to, err = it.number(bucketAttr(name, part.field)); err != nil {
			return c, err
		}
	}
	return c, nil
}

// decodeExtras decodes the attributes that only quotas and shadow limits have.
func (img *image) decodeExtras(it item, attrs []string) error {
	// The attributes come from a map. In a fixed order, the same damage is
	// always the same error.
	slices.Sort(attrs)
	for _, attr := range attrs {
		name, field := bucketField(attr)
		c := img.holder(name)
		c.extras |= extraOf(field)
		if err := c.decodeExtra(it, attr, field); err != nil {
			return err
		}
	}

	// The fields of a quota come in any order, so its window is computed after
	// all of them.
	for c := range img.all() {
		c.openWindow(img.refill)
	}

	// A limit that has left keeps its attributes, but no charge is judged by
	// it.
	img.left = slices.DeleteFunc(slices.Clone(img.stored), func(c storedLimit) bool { return c.extras&hasLeft == 0 })
	img.stored = slices.DeleteFunc(img.stored, func(c storedLimit) bool { return c.extras&hasLeft != 0 })
	return nil
}

// all iterates over the limits of the bucket and those that have left.
func (img *image) all() iter.Seq[*storedLimit] {
	return func(yield func(*storedLimit) bool) {
		for _, list := range [][]storedLimit{img.stored, img.left} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// holder returns the stored limit of a name, also of one that is damaged or has no tokens.
func (img *image) holder(limit string) *storedLimit {
	for _, list := range [][]storedLimit{img.stored, img.damaged, img.loose} {
		for i := range list {
			if list[i].name == limit {
				return &list[i]
			}
		}
	}

	// Fields of a limit that has no tokens are remains, which a repair removes.
	img.loose = append(img.loose, storedLimit{name: limit})
	return &img.loose[len(img.loose)-1]
}

// decodeExtra decodes one attribute that only quotas and shadow limits have.
func (c *storedLimit) decodeExtra(it item, attr, field string) (err error) {
	switch field {
	case fieldWindow:
		v, ok := it[attr].(*types.AttributeValueMemberS)
		if !ok {
			return it.corrupt(attr + " is not text")
		}
		if c.every, c.zone, err = rules.ParseWindow(v.Value); err != nil {
			return it.corrupt(attr + ": " + err.Error())
		}
	case fieldStart:
		c.start, err = it.number(attr)
	case fieldShadow:
		c.shadow = it.truth(attr)
	case fieldSpared:
		// Only checked: the table cannot add to what is not a number.
		_, err = it.number(attr)
	case fieldPeak:
		c.peaks = it.text(attr)
	}
	return err
}

// peakText returns the stored form of what a bucket knows of a quota's window:
// its start, the largest capacity that was in force in it, the capacity that
// the tokens belong to, and how much of the use they do not show, if any.
// Python leaves the tokens when it changes a capacity. The stored capacity then
// differs from that of the limit.
func peakText(start, peak, capacity, hidden int64) string {
	b := strconv.AppendInt(make([]byte, 0, 64), start, 10)
	b = strconv.AppendInt(append(b, ':'), max(peak, capacity), 10)
	b = strconv.AppendInt(append(b, ':'), capacity, 10)
	if hidden != 0 {
		b = strconv.AppendInt(append(b, ':'), hidden, 10)
	}
	return string(b)
}

// readPeak decodes the text of peakText, under the present window and capacity
// of a quota. It also returns by how much the tokens have to move. The peak and
// the hidden use of another window do not count, so that a step need not write
// the text. An older form of the text has a window and what was spent in it
// above a capacity that was lowered. A text of any other form counts as absent.
func readPeak(text string, start, capacity int64) (peak, hidden, shift int64) {
	of, rest, _ := strings.Cut(text, ":")

	var numbers [3]int64
	count := 0
	for part := range strings.SplitSeq(rest, ":") {
		n, err := strconv.ParseInt(part, 10, 64)

		// Neither a peak nor a capacity is negative.
		if err != nil || count == len(numbers) || n < 0 && count < 2 {
			return 0, 0, 0
		}
		numbers[count] = n
		count++
	}

	same := of == strconv.FormatInt(start, 10)

	// The older form, with what was spent above the capacity.
	if count == 1 {
		if excess := numbers[0]; same && excess > 0 {
			return bucket.Add(capacity, excess), 0, -excess
		}
		return 0, 0, 0
	}

	if same {
		peak, hidden = numbers[0], numbers[2]
	}
	shift, peak, hidden = rules.ResizeQuota(numbers[1], capacity, peak, hidden)
	return peak, hidden, shift
}

// openWindow completes a quota. If the item lacks the start of its window, that is
// the window of the refill time.
func (c *storedLimit) openWindow(refill int64) {
	if c.every == 0 {
		return
	}

	// The window is nil if this process cannot load the zone. Charges are
	// refused then.
	c.rate.Window = rules.RateOf(c.limit()).Window

	if c.extras&hasStart == 0 && c.rate.Window != nil {
		c.start = c.rate.Window.Start(refill)
	}

	if c.extras&hasPeak != 0 {
		c.peak, c.hidden, c.shift = readPeak(c.peaks, c.start, c.rate.Capacity)
	}
}

// marked reports whether the item has the window of a quota and its start.
func (c *storedLimit) marked() bool { return c.extras&(hasWindow|hasStart) == hasWindow|hasStart }

// limit returns the parameters in whole tokens.
func (c *storedLimit) limit() limiter.Limit {
	l := limiter.Limit{Name: c.name, Capacity: c.rate.Capacity / bucket.Milli, IsShadow: c.shadow}
	if c.every != 0 {
		l.Window, l.Zone = c.every, c.zone
		return l
	}
	l.Refill, l.Period = c.rate.Amount/bucket.Milli, time.Duration(c.rate.Period)*time.Millisecond
	return l
}

// is reports whether the item holds exactly this limit.
func (c *storedLimit) is(l limiter.Limit) bool {
	return c.name == l.Name && c.rate == rateOf(l) && c.shadow == l.IsShadow && c.extras&hasLeft == 0 &&
		c.every == l.Window && c.zone == l.Zone && (c.every == 0 || c.marked() && c.shift == 0)
}

// follows reports whether the limit is a quota with the windows of l.
func (c *storedLimit) follows(l limiter.Limit) bool {
	return c.every != 0 && c.every == l.Window && c.zone == l.Zone
}

// tokensAt returns the tokens of a rate that was refilled up to base at a time, and
// of a quota at now.
func (c *storedLimit) tokensAt(base, at, now int64) int64 {
	if c.every == 0 {
		return bucket.Advance(c.tokens, base, at, c.rate)
	}
	return bucket.Advance(c.balance(), c.start, now, c.stepRate())
}

// balance returns the tokens under the present capacity. Python leaves more than the
// capacity after it lowers one or gives back.
func (c *storedLimit) balance() int64 { return min(bucket.Add(c.tokens, c.shift), c.rate.Capacity) }

// stepRate returns how a quota fills.
func (c *storedLimit) stepRate() bucket.Rate {
	r := rules.RateOf(c.limit())
	r.Peak = c.peak
	return r
}

// full reports whether the limit, refilled up to base, is full at a time. A quota whose
// window begins later is not: a new bucket would be in the window before.
func (c *storedLimit) full(base, at, now int64) bool {
	return !c.begins(now) && c.tokensAt(base, at, now) >= c.rate.Capacity
}

// due reports whether a boundary of a quota has passed.
func (c *storedLimit) due(now int64) bool {
	return c.every != 0 && c.rate.Window != nil && c.rate.Window.Count(c.start, now) > 0
}

// begins reports whether a clock that is ahead has begun a window of a quota that
// begins after now.
func (c *storedLimit) begins(now int64) bool { return c.every != 0 && c.start > now }

// ceiling returns the most tokens that a limit may hold if it has not filled up
// between two times. A quota that is not due gains nothing.
func (c *storedLimit) ceiling(base, at int64) int64 {
	if c.every != 0 {
		return c.rate.Capacity
	}
	return bucket.Sub(c.rate.Capacity, bucket.Accrued(base, at, c.rate))
}

// level returns the limit with its balance, if it is refilled up to base.
func (c *storedLimit) level(base int64) rules.Level {
	v := rules.Level{Limit: c.limit(), Tokens: c.balance(), At: base}
	if c.every != 0 {
		v.Start, v.Peak, v.Hidden = c.start, c.peak, c.hidden
	}
	return v
}

// uncovers reports whether a give-back lowers the use that the tokens do not show.
func (c *storedLimit) uncovers(n int64) bool {
	v := c.level(0)
	return v.Give(n).Hidden != v.Hidden
}

// set makes the limit what a write leaves.
func (c *storedLimit) set(v rules.Level) {
	c.tokens, c.shift = v.Tokens, 0
	if c.every != 0 {
		c.start, c.peak, c.hidden, c.extras = v.Start, v.Peak, v.Hidden, c.extras|hasStart|hasPeak
		c.peaks = peakText(v.Start, v.Peak, c.rate.Capacity, v.Hidden)
	}
}

// adopt returns the image with the windows of quotas that Python stored in a
// bucket. Python stores only the rate of a quota, so the windows come from
// limits. adopt returns img itself if there is no such quota.
func (img *image) adopt(limits []limiter.Limit) *image {
	var adopted *image
	for _, l := range limits {
		i := slices.IndexFunc(img.stored, func(c storedLimit) bool { return c.name == l.Name })
		if l.Window == 0 || i < 0 || img.stored[i].every != 0 {
			continue
		}

		// A limit with any other rate was a rate, which a repair changes.
		if r := img.stored[i].rate; r.Amount != quotaAmount*bucket.Milli || r.Period != quotaSeconds*bucket.Milli {
			continue
		}

		// An image is immutable, and other calls share it.
		if adopted == nil {
			clone := *img
			clone.stored = slices.Clone(img.stored)
			adopted = &clone
		}

		c := &adopted.stored[i]
		c.every, c.zone = l.Window, l.Zone
		c.openWindow(img.refill)
	}

	if adopted == nil {
		return img
	}
	return adopted
}

// refillRates refills the rates of a bucket up to a time. Quotas depend on the time
// of the caller alone.
func refillRates(b *rules.Bucket, to int64) {
	if to <= b.At {
		return
	}

	for i, l := range b.Account.Limits {
		if l.Window == 0 {
			b.Tokens[i] = bucket.Advance(b.Tokens[i], b.At, to, rules.RateOf(l))
		}
	}

	b.At = to
}

// extrasOf returns the fields of quotas and shadow limits that the item holds for a
// limit without tokens, or a damaged one.
func (img *image) extrasOf(limit string) extras {
	for _, c := range slices.Concat(img.damaged, img.loose) {
		if c.name == limit {
			return c.extras
		}
	}
	return 0
}

// compareStored orders limits by name.
func compareStored(a, b storedLimit) int { return strings.Compare(a.name, b.name) }
