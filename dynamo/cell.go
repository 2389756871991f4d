package dynamo

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// cell is one limit of a bucket.
type cell struct {
	name   string
	rate   bucket.Rate // the numbers of the item, and the window of a quota
	tokens int64
	start  int64  // of the window that the tokens of a quota belong to
	excess int64  // what was spent in that window above a capacity that was lowered since
	zone   string // of a quota, as is every
	every  limiter.Calendar
	shadow bool
	extras extras // which of these the item has
}

// extras is a set of the fields that only quotas and shadow limits have.
type extras uint8

const (
	hasWindow extras = 1 << iota
	hasStart
	hasShadow
	hasSpared
	hasExcess
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
	case fieldExcess:
		return hasExcess
	}
	return 0
}

// fields returns the names of the fields in the set.
func (e extras) fields() (fields []string) {
	for _, field := range []string{fieldWindow, fieldStart, fieldShadow, fieldSpared, fieldExcess} {
		if e&extraOf(field) != 0 {
			fields = append(fields, field)
		}
	}
	return fields
}

// The stored rate of a quota: one token in 285 years.
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

// decodeCell decodes one limit of a bucket, without the fields of quotas and shadow
// limits.
func decodeCell(it item, name string) (c cell, err error) {
	c.name = name
	for _, part := range []struct {
		field string
		to    *int64
	}{
		{fieldTokens, &c.tokens},
		{fieldCapacity, &c.rate.Capacity},
		{fieldAmount, &c.rate.Amount},
		{fieldPeriod, &c.rate.Period},
		{fieldTotal, new(int64)}, // only checked: a charge cannot add to what is not a number
	} {
		if *part.to, err = it.number(bucketAttr(name, part.field)); err != nil {
			return c, err
		}
	}
	return c, nil
}

// decodeExtras decodes the attributes that only quotas and shadow limits have.
func (img *image) decodeExtras(it item, attrs []string) error {
	slices.Sort(attrs)
	for _, attr := range attrs {
		name, field := bucketField(attr)
		c := img.holder(name)
		c.extras |= extraOf(field)
		if err := c.decodeExtra(it, attr, field); err != nil {
			return err
		}
	}
	for i := range img.cells {
		img.cells[i].openWindow(img.refill)
	}
	return nil
}

// holder returns the cell of a limit, also of one that is damaged or has no tokens.
func (img *image) holder(limit string) *cell {
	for _, cells := range [][]cell{img.cells, img.damaged, img.loose} {
		for i := range cells {
			if cells[i].name == limit {
				return &cells[i]
			}
		}
	}
	img.loose = append(img.loose, cell{name: limit})
	return &img.loose[len(img.loose)-1]
}

// decodeExtra decodes one of the attributes.
func (c *cell) decodeExtra(it item, attr, field string) (err error) {
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
		_, err = it.number(attr) // only checked, like the total
	case fieldExcess:
		c.excess = decodeExcess(it.text(attr), c.start)
	}
	return err
}

// excessText returns the stored form of the excess of a window: the start of the
// window and the excess. A step need not remove it, since it belongs to one window.
func excessText(start, excess int64) string {
	return strconv.FormatInt(start, 10) + ":" + strconv.FormatInt(excess, 10)
}

// decodeExcess reverts excessText. It returns 0 for another window, and for a text
// of another form.
func decodeExcess(text string, start int64) int64 {
	of, excess, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(excess, 10, 64)
	if err != nil || n < 0 || of != strconv.FormatInt(start, 10) {
		return 0
	}
	return n
}

// openWindow completes a quota. If the item lacks the start of its window, that is
// the window of the refill time.
func (c *cell) openWindow(refill int64) {
	if c.every == 0 {
		return
	}
	c.rate.Window = rules.RateOf(c.limit()).Window
	if c.extras&hasStart == 0 && c.rate.Window != nil {
		c.start = c.rate.Window.Start(refill)
	}
}

// marked reports whether the item has the window of a quota and its start.
func (c *cell) marked() bool { return c.extras&(hasWindow|hasStart) == hasWindow|hasStart }

// limit returns the cell's parameters in whole tokens.
func (c *cell) limit() limiter.Limit {
	l := limiter.Limit{Name: c.name, Capacity: c.rate.Capacity / bucket.Milli, IsShadow: c.shadow}
	if c.every != 0 {
		l.Window, l.Zone = c.every, c.zone
		return l
	}
	l.Refill, l.Period = c.rate.Amount/bucket.Milli, time.Duration(c.rate.Period)*time.Millisecond
	return l
}

// is reports whether the item holds exactly this limit.
func (c *cell) is(l limiter.Limit) bool {
	return c.name == l.Name && c.rate == rateOf(l) && c.shadow == l.IsShadow &&
		c.every == l.Window && c.zone == l.Zone && (c.every == 0 || c.marked())
}

// follows reports whether the cell is a quota with the windows of l.
func (c *cell) follows(l limiter.Limit) bool {
	return c.every != 0 && c.every == l.Window && c.zone == l.Zone
}

// tokensAt returns the tokens of a rate that was refilled up to base at a time, and
// of a quota at now.
func (c *cell) tokensAt(base, at, now int64) int64 {
	if c.every == 0 {
		return bucket.Advance(c.tokens, base, at, c.rate)
	}
	return bucket.Advance(c.tokens, c.start, now, rules.RateOf(c.limit()))
}

// due reports whether a boundary of a quota has passed.
func (c *cell) due(now int64) bool {
	return c.every != 0 && c.rate.Window != nil && c.rate.Window.Count(c.start, now) > 0
}

// begins reports whether a clock that is ahead has begun a window of a quota that
// begins after now.
func (c *cell) begins(now int64) bool { return c.every != 0 && c.start > now }

// ceiling returns the most tokens that a limit may hold if it has not filled up
// between two times. A quota that is not due gains nothing.
func (c *cell) ceiling(base, at int64) int64 {
	if c.every != 0 {
		return c.rate.Capacity
	}
	return bucket.Sub(c.rate.Capacity, bucket.Accrued(base, at, c.rate))
}

// adopt returns the image in which limits are quotas if limits says so and Python
// created them: it knows the stored rate, and not the window. It returns img itself
// if there are none.
func (img *image) adopt(limits []limiter.Limit) *image {
	var adopted *image
	for _, l := range limits {
		i := slices.IndexFunc(img.cells, func(c cell) bool { return c.name == l.Name })
		if l.Window == 0 || i < 0 || img.cells[i].every != 0 {
			continue
		}
		if r := img.cells[i].rate; r.Amount != quotaAmount*bucket.Milli || r.Period != quotaSeconds*bucket.Milli {
			continue
		}
		if adopted == nil {
			clone := *img
			clone.cells = slices.Clone(img.cells)
			adopted = &clone
		}
		c := &adopted.cells[i]
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

// compareCells orders cells by name.
func compareCells(a, b cell) int { return strings.Compare(a.name, b.name) }
