package dynamo

import (
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
	"github.com/zeroae/zae-limiter-go/internal/race"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// The limits of DynamoDB for the expressions of one request.
const (
	maxExpression = 4096
	maxOperators  = 300
	maxValues     = 2 << 20
)

var longestNow = time.Date(2026, time.March, 14, 15, 9, 26, 0, time.UTC)

// longestZone is the longest name of a zone.
const longestZone = "America/Argentina/ComodRivadavia"

// longName returns a limit's name of the greatest length.
func longName(prefix string, i int) string { return fmt.Sprintf("%s-%0*d", prefix, 63-len(prefix), i) }

// storedCells are the forms in which an item may have a limit. All have every
// attribute that only Go writes.
var storedCells = map[string]func(it item, name string){
	"a rate":                  func(it item, name string) { it.putRate(name, 30_000) },
	"a full rate":             func(it item, name string) { it.putRate(name, 60_000) },
	"a rate in debt":          func(it item, name string) { it.putRate(name, -600_000) },
	"a quota":                 func(it item, name string) { it.putQuota(name, 30_000, 0, ":60000:60000") },
	"a spent quota":           func(it item, name string) { it.putQuota(name, 0, 0, ":90000:60000") },
	"a quota that is due":     func(it item, name string) { it.putQuota(name, 30_000, 1, ":60000:60000") },
	"a quota due and in debt": func(it item, name string) { it.putQuota(name, -600_000, 1, ":60000:60000") },
	"a quota that Python changed": func(it item, name string) {
		it.putQuota(name, 30_000, 0, ":90000:90000")
	},
	"a quota that hides its use": func(it item, name string) {
		it.putQuota(name, 30_000, 0, fmt.Sprint(":90000:90000:", math.MaxInt64))
	},
	"a quota with an excess": func(it item, name string) { it.putQuota(name, 0, 0, ":30000") },
	"a quota that Python made": func(it item, name string) {
		it.putQuota(name, 30_000, 0, "")
		delete(it, bucketAttr(name, fieldWindow))
		delete(it, bucketAttr(name, fieldStart))
		delete(it, bucketAttr(name, fieldPeak))
	},
	"a quota without a start": func(it item, name string) {
		it.putQuota(name, 30_000, 0, "")
		delete(it, bucketAttr(name, fieldStart))
		delete(it, bucketAttr(name, fieldPeak))
	},
	"a damaged limit": func(it item, name string) {
		it.putQuota(name, 30_000, 0, ":60000:60000")
		delete(it, bucketAttr(name, fieldCapacity))
	},
	"the rest of a limit": func(it item, name string) {
		it.putQuota(name, 30_000, 0, ":60000:60000")
		delete(it, bucketAttr(name, fieldTokens))
	},
}

func (it item) putRate(name string, tokens int64) {
	it.putCell(name, tokens, 60_000, 60_000)
}

func (it item) putCell(name string, tokens, amount, period int64) {
	it[bucketAttr(name, fieldTokens)], it[bucketAttr(name, fieldCapacity)] = number(tokens), number(60_000)
	it[bucketAttr(name, fieldAmount)], it[bucketAttr(name, fieldPeriod)] = number(amount), number(period)
	it[bucketAttr(name, fieldTotal)], it[bucketAttr(name, fieldSpared)] = number(0), number(1)
}

// putQuota puts a quota whose window was hours ago.
func (it item) putQuota(name string, tokens int64, hours int, peaks string) {
	it.putCell(name, tokens, quotaAmount*1000, quotaSeconds*1000)
	start := longestNow.Truncate(time.Hour).Add(-time.Duration(hours) * time.Hour).UnixMilli()
	it[bucketAttr(name, fieldWindow)], it[bucketAttr(name, fieldStart)] = text("hour"), number(start)
	it[bucketAttr(name, fieldPeak)] = text(fmt.Sprint(start, peaks))
}

// limitChanges are what the limits in force may have become.
var limitChanges = map[string]func(name string) limiter.Limit{
	"a rate":         func(name string) limiter.Limit { return limiter.PerMinute(name, 60) },
	"a shadow rate":  func(name string) limiter.Limit { return limiter.PerMinute(name, 60).Shadow() },
	"another rate":   func(name string) limiter.Limit { return limiter.PerMinute(name, 90).Shadow() },
	"a quota":        func(name string) limiter.Limit { return limiter.Quota(name, 60, limiter.EveryHour) },
	"a shadow quota": func(name string) limiter.Limit { return limiter.Quota(name, 60, limiter.EveryHour).Shadow() },
	"a higher quota": func(name string) limiter.Limit { return limiter.Quota(name, 90, limiter.EveryHour).Shadow() },
	"a lower quota":  func(name string) limiter.Limit { return limiter.Quota(name, 10, limiter.EveryHour).Shadow() },
	"a quota of days": func(name string) limiter.Limit {
		return limiter.Quota(name, 60, limiter.EveryDay).In(longestZone).Shadow()
	},
}

// longestCase is a bucket with the greatest number of limits, and what they become.
type longestCase struct {
	stored, change    string
	inForce, left     int // limits of the item
	stay, join        int // limits afterwards that the item has, and others
	expired, override bool
	kept              bool   // limits that have left and are full stay
	life              string // of the bucket; "" if Python made it
}

// longestCases yields buckets of one form each: an expression is the longest if every
// limit adds the most.
func longestCases() iter.Seq[longestCase] {
	const most = maxLimits
	return func(yield func(longestCase) bool) {
		for stored := range storedCells {
			for change := range limitChanges {
				for _, n := range []longestCase{
					{inForce: most, stay: most},
					{inForce: most, join: most},
					{inForce: most, stay: 1},
					{inForce: most / 2, left: most / 2, stay: most},
					{inForce: most / 2, left: most / 2, join: most},
					{left: most, stay: most},
					{left: most, join: most},
				} {
					for _, more := range []struct{ expired, override, kept bool }{
						{}, {expired: true}, {override: true}, {kept: true},
					} {
						n.stored, n.change = stored, change
						n.expired, n.override, n.kept = more.expired, more.override, more.kept
						for _, n.life = range []string{"", newLife().(*types.AttributeValueMemberS).Value} {
							if !yield(n) {
								return
							}
						}
					}
				}
			}
		}
	}
}

// image returns the item of the case, decoded. Others may have left more.
func (c *longestCase) image(t *testing.T) *image {
	t.Helper()
	it := item{attrPK: text("ns/ENTITY#e"), attrSK: text("#BUCKET#r")}
	it[attrRefill], it[attrTTL], it[attrShape] = number(
		longestNow.Add(-40*time.Second).UnixMilli(),
	), number(longestNow.Unix()+60), number(7)
	it[attrKeep] = number(longestNow.UnixMilli())
	if c.kept {
		it[attrKeep] = number(longestNow.Add(time.Hour).UnixMilli())
	}
	if c.life != "" {
		it[attrLife] = text(c.life)
	}
	if c.expired {
		it[attrTTL], it[attrKeep] = number(1), number(1)
	}
	for i := range c.inForce + c.left {
		storedCells[c.stored](it, longName("old", i))
		if i >= c.inForce {
			it[bucketAttr(longName("old", i), fieldLeft)] = truth(true)
		}
	}
	img, err := decodeImage(it)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// limits returns the limits in force, and the amounts of a charge of all of them.
func (c *longestCase) limits() (limits []limiter.Limit) {
	change := limitChanges[c.change]
	for i := range c.join {
		limits = append(limits, change(longName("new", i)))
	}
	for i := range c.stay {
		limits = append(limits, change(longName("old", i)))
	}
	return limits
}

// ref returns the handle of the bucket.
func (c *longestCase) ref() *ref {
	r := &ref{}
	r.setLife(c.life)
	return r
}

// writes yields every write of a bucket that the case may cause.
func (c *longestCase) writes(t *testing.T) iter.Seq2[string, *update] {
	t.Helper()
	now, img := longestNow.UnixMilli(), c.image(t)
	off := *img // with what others have left
	off.off, off.cascade, off.parent = text("off"), true, "p"
	repo := &Repository{store: &store{table: "table", ttl: rules.DefaultTTL, images: newImages(1)}, ns: "ns"}
	payer := func(img *image) *payer {
		p := &payer{repo: repo, entity: "e", key: bucketKey("ns", "e", "r"), fresh: true, override: c.override}
		p.cached = cachedBucket{image: img, ref: c.ref()}
		p.setLimits(c.limits(), "r", limiter.Scope{Resource: "r"})
		if c.override {
			p.stored = &[]limiter.Limit{}
		}
		p.decide(now)
		return p
	}
	return func(yield func(string, *update) bool) {
		for _, n := range []int64{1, 1000} {
			p := payer(&off)
			if checkLimits(p.limitCount()) != nil {
				break // a charge of it is refused
			}
			var amounts limiter.Amounts
			for _, l := range p.plan.view.Account.Limits {
				amounts = amounts.And(l.Name, n)
			}
			p.take(&amounts)
			u := p.lockedWrite(&amounts, true)
			p.dropStrayCopy(u)
			u.requireOn()
			if !yield(fmt.Sprint("a locked charge of ", n), u) {
				return
			}
			if p = payer(img); !p.plan.repair && !p.plan.recreate {
				p.take(&amounts)
				for _, m := range []mode{modePlain, modeSlack} {
					u := p.plainWrite(&amounts, m)
					u.requireOn()
					if !yield(fmt.Sprint("a plain charge of ", n), u) {
						return
					}
				}
			}
		}
		p := payer(&off)
		u := p.lockedWrite(&limiter.Amounts{}, true)
		p.dropStrayCopy(u)
		if !yield("a repair", u) {
			return
		}
		for what, f := range map[string]*limiter.Fill{
			"a reset": {}, "a reset of one": {Limits: []string{longName("old", 0)}}, "a top-up": {ID: "id"},
		} {
			p := payer(&off)
			for _, l := range p.account.Limits {
				if f.ID != "" {
					f.Amounts = f.Amounts.And(l.Name, 1)
				}
			}
			p.plan.fill = f
			refillRates(&p.plan.after, p.plan.at)
			p.plan.after.Fill(now, f)
			if !yield(what, p.lockedWrite(&limiter.Amounts{}, false)) {
				return
			}
		}
		for what, u := range c.credits(repo, img) {
			if !yield(what, u) {
				return
			}
		}
		if u := refillUpdate(img, now); u != nil {
			yield("a refill", u)
		}
	}
}

// credits yields the credits of the limits of the item.
func (c *longestCase) credits(repo *Repository, img *image) iter.Seq2[string, *update] {
	return func(yield func(string, *update) bool) {
		for _, n := range []int64{-1, 1000} {
			for _, undo := range []bool{false, true} {
				var amounts limiter.Amounts
				var spared []string
				for i := range c.inForce + c.left {
					amounts = amounts.And(longName("old", i), n)
					if undo {
						spared = append(spared, longName("old", i))
					}
				}
				op := &creditOp{
					repo: repo, account: &limiter.Account{}, amounts: amounts, now: longestNow.UnixMilli(),
					undo: undo, uncount: undo, spared: spared,
					ref: c.ref(), cached: cachedBucket{image: img},
				}
				if _, u := op.update(); u != nil && !yield(fmt.Sprintf("a credit of %d, undo %v", n, undo), u) {
					return
				}
			}
		}
	}
}

// operatorsOf returns how many operators and functions an expression has.
func operatorsOf(expression string) (n int) {
	for _, operator := range []string{"=", "<", ">", " AND ", " OR ", " BETWEEN ", "NOT ", "("} {
		n += strings.Count(expression, operator)
	}
	return n - strings.Count(expression, "<=") - strings.Count(expression, ">=")
}

// sizes returns the greatest length of an expression of an update, its number of
// operators, and the size of what its placeholders stand for.
func (u *update) sizes() (length, count, values int) {
	for _, e := range []string{*u.expression(), *u.condition()} {
		length, count = max(length, len(e)), max(count, operatorsOf(e))
	}
	for placeholder, name := range u.names {
		values += len(placeholder) + len(name)
	}
	for placeholder, v := range u.values {
		values += len(placeholder)
		switch v := v.(type) {
		case *types.AttributeValueMemberN:
			values += len(v.Value)
		case *types.AttributeValueMemberS:
			values += len(v.Value)
		}
	}
	return length, count, values
}

// perSample is how many cases one stands for under the race detector, which finds
// nothing in them and makes them slow. It shares no factor with the number of cases
// of a form, so that the samples differ in everything.
const perSample = 15

// TestLongestExpressions builds every write of a bucket with as many limits as it may
// have, in all forms, and checks it against the limits of DynamoDB.
func TestLongestExpressions(t *testing.T) {
	t.Parallel()
	var longest, most int
	var longestOf, mostOf string
	check := func(what string, c longestCase, u *update) {
		length, count, values := u.sizes()
		if length > maxExpression || count > maxOperators || values > maxValues {
			t.Errorf("%s of %+v: an expression of %d bytes, %d operators, %d bytes of values", what, c, length,
				count, values)
		}
		if length > longest {
			longest, longestOf = length, fmt.Sprintf("%s of %+v", what, c)
		}
		if count > most {
			most, mostOf = count, fmt.Sprintf("%s of %+v", what, c)
		}
	}
	seen := map[string]bool{}
	n := 0
	for c := range longestCases() {
		if n++; race.Enabled && n%perSample != 0 {
			continue
		}
		for what, u := range c.writes(t) {
			seen[strings.Fields(what)[1]] = true
			check(what, c, u)
			if t.Failed() {
				return
			}
		}
	}
	for _, kind := range []string{"locked", "plain", "repair", "reset", "top-up", "credit", "refill"} {
		if !seen[kind] {
			t.Errorf("no case makes a write of the kind %s", kind)
		}
	}
	usage := &UsageStore{repo: &Repository{store: &store{clock: time.Now}}}
	entry := aggregator.Entry{Used: map[string]int64{}, WouldRefuse: map[string]int64{}}
	for i := range maxLimits {
		for _, prefix := range []string{"old", "new"} {
			entry.Used[longName(prefix, i)], entry.WouldRefuse[longName(prefix, i)] = 1, 1
		}
	}
	addition := &aggregator.Addition{Window: limiter.Hourly, Entries: []aggregator.Entry{entry}}
	check("a snapshot", longestCase{}, usage.addUpdate(key{}, addition))
	check("the item beside a snapshot", longestCase{}, usage.shadowUpdate(key{}, addition))
	t.Logf("%d of %d bytes: %s", longest, maxExpression, longestOf)
	t.Logf("%d of %d operators: %s", most, maxOperators, mostOf)
}
