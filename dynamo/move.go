package dynamo

import (
	"math"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// move is what a locked write does to one limit.
type move struct {
	to     limiter.Limit // the limit after the write
	rate   bucket.Rate   // how it is stored
	tokens int64         // after the write
	start  int64         // the window after the write, if it is a quota
	peak   int64         // the largest capacity of that window, 0 if that is the capacity
	hidden int64         // how much of the use in that window the tokens do not show
	used   int64         // is added to the total
	taken  int64         // the part of used that the tokens pay
	named  bool          // the charge names the limit
	floor  bool          // the write is refused unless the tokens cover taken
	sets   bool          // the write sets the tokens, whatever the item holds by then
	adds   bool          // the limit gains what a top-up adds, up to the capacity
	spares int64         // how often the write counts that the limit was spared

	// A spared limit does not pay what was used. If short is set, the write is
	// refused once the stored tokens would cover it, since the limit then has
	// to pay.
	short bool

	// The bucket's quota may be larger than that of an override. The charge
	// must leave the difference, in thousandths of a token.
	reserve int64

	leaves bool // the limit is not in force
}

// stay returns a move to a level that changes no parameters of the limit.
func (c *storedLimit) stay(v rules.Level) move {
	return move{
		to: c.limit(), rate: c.rate, tokens: v.Tokens, start: v.Start, peak: v.Peak, hidden: v.Hidden,
		leaves: c.extras&hasLeft != 0,
	}
}

// leave returns a move to a level for a limit that is not in force.
func (c *storedLimit) leave(v rules.Level) move {
	m := c.stay(v)
	m.leaves = true

	// The item had forgotten the limit, and a lease has recalled it, perhaps with
	// other parameters.
	if v.Limit != m.to {
		m.to, m.rate = v.Limit, rateOf(v.Limit)
	}
	return m
}

// peakText returns what the item stores of the quota's window after the write.
func (m *move) peakText() string { return peakText(m.start, m.peak, m.rate.Capacity, m.hidden) }

// steps returns a move of a quota to the window of now.
func (c *storedLimit) steps(now int64) move {
	return c.stay(rules.Level{Tokens: c.tokensAt(now, now, now), Start: c.rate.Window.Start(now)})
}

// changeLimit moves a limit of the item. The caller guarantees that the tokens of
// the move are at most the capacity, even with what was taken added back, and
// that they are not negative if there is a floor.
func (u *update) changeLimit(c *storedLimit, m *move) {
	if m.sets {
		u.resetLimit(c, m)
		return
	}
	if c.follows(m.to) {
		u.changeQuota(c, m)
		return
	}

	delta := bucket.Sub(m.tokens, c.tokens)
	tokens := u.attr(bucketAttr(c.name, fieldTokens))
	u.addTo(tokens, delta)
	u.addTo(u.attr(bucketAttr(c.name, fieldTotal)), m.used)
	u.requireRate(c)

	// Others may have taken tokens since the image. The gain is right for any
	// balance that leaves room for it: with 90 of 100 in the image and a gain
	// of 5, for 95 or less.
	gained := bucket.Add(delta, m.taken)
	if highest := bucket.Sub(m.rate.Capacity, gained); highest > c.tokens {
		u.when(tokens, "<=", u.number(min(highest, m.uncovered(gained))))
	} else {
		// The refill stops at the capacity, so the gain is right for one
		// balance alone. If others have taken tokens, the bucket gains more.
		u.when(tokens, "=", u.number(c.tokens))
	}

	if m.floor {
		u.when(tokens, ">=", u.number(-delta))
	}

	if c.rate != m.rate {
		u.setRate(c.name, m.rate)
	}
	u.setExtras(c, m)
}

// resetLimit sets the tokens of a limit, whatever others take meanwhile.
func (u *update) resetLimit(c *storedLimit, m *move) {
	u.setTo(u.attr(bucketAttr(c.name, fieldTokens)), number(m.tokens))
	u.requireRate(c)
	if c.rate != m.rate {
		u.setRate(c.name, m.rate)
	}
	u.setExtras(c, m)
}

// uncovered returns the largest stored balance that does not cover what the
// move uses, once the write has added what the limit gains. It returns
// math.MaxInt64 if the write does not depend on that.
func (m *move) uncovered(gained int64) int64 {
	if !m.short {
		return math.MaxInt64
	}
	return bucket.Add(bucket.Sub(bucket.Sub(m.used, 1), gained), m.reserve)
}

// changeQuota moves a quota within its windows. If a step fills the quota whatever it
// holds, the write does not depend on the tokens of the image. A quota that neither
// moves nor is named stays out of the write: its time does not depend on the refill
// time.
func (u *update) changeQuota(c *storedLimit, m *move) {
	stepped := bucket.Accrued(c.start, m.start, c.stepRate())
	delta := bucket.Sub(m.tokens, c.tokens)
	if c.is(m.to) && stepped == 0 && delta == 0 && !m.named && m.leaves == (c.extras&hasLeft != 0) {
		return
	}

	full := m.rate.Capacity
	tokens := u.attr(bucketAttr(c.name, fieldTokens))
	u.requireRate(c)
	gained := bucket.Add(delta, m.taken)

	// With more than room tokens, a step would overflow the capacity.
	room := bucket.Sub(c.rate.Capacity, stepped)
	// A give-back, a top-up or a lower capacity may stop at the capacity.
	clipped := (m.used < 0 || m.adds || full < c.rate.Capacity) && m.tokens >= full
	switch {
	// A step that fills the image fills any larger balance too. One that gains
	// 100 of 100 fills the quota unless it is in debt.
	case c.shift == 0 && stepped > 0 && c.tokens >= room:
		u.setTo(tokens, number(m.tokens))
		u.when(tokens, ">=", u.number(room))
	// Nothing is cut off at the capacity, so the difference is right for other
	// balances as well.
	case c.shift == 0 && c.tokens <= room && !clipped:
		u.addTo(tokens, delta)
		u.when(tokens, "<=", u.number(min(room, bucket.Sub(full, gained), m.uncovered(gained))))
		if m.floor {
			u.when(tokens, ">=", u.number(bucket.Sub(m.reserve, delta)))
		}
	// The result depends on the balance, which has to be that of the image.
	default:
		u.addTo(tokens, delta)
		u.when(tokens, "=", u.number(c.tokens))
	}

	if m.named {
		u.addTo(u.attr(bucketAttr(c.name, fieldTotal)), m.used)
	}

	if c.rate != m.rate {
		u.setRate(c.name, m.rate)
	}
	u.setExtras(c, m)
}

// setExtras sets what makes a limit a quota or a shadow limit where the item differs,
// and counts a spared limit.
func (u *update) setExtras(c *storedLimit, m *move) {
	u.setWindow(c.name, c.extras, !c.follows(m.to), c.start, m)
	u.setPeak(c, m)
	u.setShadow(c.name, c.extras, c.shadow, m)

	switch has := c.extras&hasLeft != 0; {
	case m.leaves && !has:
		u.setTo(u.attr(bucketAttr(c.name, fieldLeft)), truth(true))
	case !m.leaves && has:
		u.removeAttr(bucketAttr(c.name, fieldLeft))
	}
}

// setWindow sets or removes the window of a limit and its start. has holds the fields
// that the item has.
func (u *update) setWindow(name string, has extras, changed bool, start int64, m *move) {
	if m.to.Window == 0 {
		for _, field := range (has & (hasWindow | hasStart | hasPeak)).fields() {
			u.removeAttr(bucketAttr(name, field))
		}
		return
	}

	if changed || has&hasWindow == 0 {
		u.setTo(u.attr(bucketAttr(name, fieldWindow)), text(rules.WindowText(m.to)))
	}
	if changed || start != m.start || has&hasStart == 0 {
		u.setTo(u.attr(bucketAttr(name, fieldStart)), number(m.start))
	}
}

// setPeak stores the capacities of a quota's window, unless the item says so already.
func (u *update) setPeak(c *storedLimit, m *move) {
	if m.to.Window == 0 {
		return
	}

	if c.extras&hasPeak != 0 {
		peak, hidden, shift := readPeak(c.peaks, m.start, m.rate.Capacity)
		if peak == m.peak && hidden == m.hidden && shift == 0 {
			return
		}
	}

	attr := u.attr(bucketAttr(c.name, fieldPeak))
	u.setTo(attr, text(m.peakText()))
	gives := c.follows(m.to) && c.rate.Capacity == m.rate.Capacity && c.start == m.start && c.hidden != m.hidden

	// Two writes from one image must not both move the tokens to a capacity, or both
	// give back to the hidden use.
	if c.shift != 0 || gives {
		u.when(attr, "=", u.value(text(c.peaks)))
	}
}

// setShadow sets or removes the mark of a shadow limit, and counts that it was spared.
func (u *update) setShadow(name string, has extras, shadow bool, m *move) {
	switch {
	case m.to.IsShadow && !shadow:
		u.setTo(u.attr(bucketAttr(name, fieldShadow)), truth(true))
	case !m.to.IsShadow && has&hasShadow != 0:
		u.removeAttr(bucketAttr(name, fieldShadow))
	}
	if m.spares != 0 {
		u.addTo(u.attr(bucketAttr(name, fieldSpared)), m.spares)
	}
}

// setRate sets the parameters of a limit.
func (u *update) setRate(limit string, r bucket.Rate) {
	u.setTo(u.attr(bucketAttr(limit, fieldCapacity)), number(r.Capacity))
	u.setTo(u.attr(bucketAttr(limit, fieldAmount)), number(r.Amount))
	u.setTo(u.attr(bucketAttr(limit, fieldPeriod)), number(r.Period))
}

// addLimit adds a limit that the item lacks, or replaces a damaged one.
func (u *update) addLimit(img *image, m *move) {
	name := m.to.Name
	attr := u.attr(bucketAttr(name, fieldTokens))
	u.setTo(attr, number(m.tokens))
	u.setTo(u.attr(bucketAttr(name, fieldTotal)), number(m.used))
	u.setRate(name, m.rate)

	has := img.extrasOf(name)
	u.setWindow(name, has, true, 0, m)
	u.setShadow(name, has, false, m)

	if m.to.Window != 0 {
		u.setTo(u.attr(bucketAttr(name, fieldPeak)), text(m.peakText()))
	}
	if m.leaves {
		u.setTo(u.attr(bucketAttr(name, fieldLeft)), truth(true))
	}

	// A damaged limit has tokens already, so the write requires these instead
	// of their absence.
	for _, c := range img.damaged {
		if c.name == name {
			u.when(attr, "=", u.number(c.tokens))
			return
		}
	}
	u.when("attribute_not_exists(" + attr + ")")
}

// recallLimits adds limits that have left and that the item lacks: it had forgotten
// them. It reports whether there are any.
func (u *update) recallLimits(img *image, left []rules.Level) (some bool) {
	for _, v := range left {
		if img.findAny(v.Limit.Name) == nil {
			m := recalled(v)
			u.addLimit(img, &m)
			some = true
		}
	}
	return some
}

// recalled returns the move to a level of a limit that was full when the item forgot it.
func recalled(v rules.Level) move {
	return move{
		to: v.Limit, rate: rateOf(v.Limit), tokens: v.Tokens, start: v.Start, peak: v.Peak, hidden: v.Hidden,
		used: bucket.Sub(v.Limit.Capacity*bucket.Milli, v.Tokens), leaves: true,
	}
}

// dropLimit removes a limit from the item.
func (u *update) dropLimit(c *storedLimit) {
	for _, field := range []string{fieldTokens, fieldCapacity, fieldAmount, fieldPeriod, fieldTotal} {
		u.removeAttr(bucketAttr(c.name, field))
	}
	u.dropExtras(c)
}

// dropExtras removes what only quotas and shadow limits have.
func (u *update) dropExtras(c *storedLimit) {
	for _, field := range c.extras.fields() {
		u.removeAttr(bucketAttr(c.name, field))
	}
}
