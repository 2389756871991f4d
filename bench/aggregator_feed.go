package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// feedBuckets is the number of buckets. A few of them are busy and most are
// not, like the keys of an API.
const feedBuckets, feedSkew = 5000, 1.1

// feedStep is the time between two changes: a thousand changes in a second.
const feedStep = time.Millisecond

// feed makes the records of a table's stream. The records are always the same.
type feed struct {
	random  *rand.Rand
	which   *rand.Zipf
	buckets []feedBucket
	at      time.Time
	number  int64
}

// feedBucket is a bucket with two limits in its latest state.
type feedBucket struct {
	limits [2]feedLimit
	image  map[string]types.AttributeValue
}

type feedLimit struct {
	attr           string // prefix of its attributes
	capacity, used int64
}

// newFeed returns the feed of a namespace. All its buckets exist from the
// beginning, and their counters have their final length, so the feed does not
// grow.
func newFeed(ns string) *feed {
	random := rand.New(rand.NewPCG(1, 2))
	f := &feed{
		random: random, which: rand.NewZipf(random, feedSkew, 1, feedBuckets-1),
		buckets: make([]feedBucket, feedBuckets),
		// Every window ends during the feed.
		at: time.Date(2026, 1, 31, 23, 59, 30, 0, time.UTC),
	}

	for i := range f.buckets {
		f.buckets[i] = newFeedBucket(ns, fmt.Sprintf("key-%04d", i), f.at.UnixMilli())
	}
	return f
}

func newFeedBucket(ns, entity string, at int64) feedBucket {
	var b feedBucket
	pk := ns + "/ENTITY#" + entity
	b.image = map[string]types.AttributeValue{
		"PK": text(pk), "SK": text("#BUCKET#" + benchResource), "entity_id": text(entity),
		"resource": text(benchResource),
		"GSI2PK":   text(ns + "/RESOURCE#" + benchResource), "GSI2SK": text("BUCKET#" + entity), "GSI4PK": text(ns),
		"GSI4SK":  text(pk),
		"cascade": &types.AttributeValueMemberBOOL{}, "ttl": number(at/bucket.Milli + 420),
	}

	for i, l := range []limiter.Limit{limiter.PerMinute("rpm", 600), limiter.PerMinute("tpm", 600_000)} {
		rate, attr := rateOf(l), "b_"+l.Name
		b.limits[i] = feedLimit{attr: attr, capacity: rate.Capacity, used: 1e11}
		maps.Copy(b.image, map[string]types.AttributeValue{
			attr + "_cp": number(rate.Capacity), attr + "_ra": number(rate.Amount), attr + "_rp": number(rate.Period),
		})
	}

	// A map that was cloned and changed is a little larger, and so are its
	// clones, so the feed must not begin with the first one.
	for range 2 {
		b.image = b.changed(at, 1)
	}
	return b
}

func rateOf(l limiter.Limit) bucket.Rate {
	return bucket.RateOf(l.Capacity, l.Refill, l.Period)
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// record returns the next change: an acquire, or one time in three the end of
// a lease that gives tokens back.
func (f *feed) record() dynamo.StreamRecord {
	f.at = f.at.Add(feedStep)
	f.number++

	b := &f.buckets[f.which.Uint64()]
	tokens := 100 + f.random.Int64N(900)
	amounts := [2]int64{1, tokens}
	if f.number%3 == 0 {
		amounts = [2]int64{0, -tokens / 2}
	}
	for i, n := range amounts {
		b.limits[i].used += bucket.Thousandths(n)
	}

	// The balance follows from nothing before it: it only has to be low enough now
	// and then that the aggregator refills the bucket.
	before := b.image
	b.image = b.changed(f.at.UnixMilli(), f.random.Float64())
	// A sequence number of DynamoDB has at least 21 digits.
	return dynamo.StreamRecord{
		Feed: "2026-01-01T00:00:00.000", Sequence: fmt.Sprintf("%021d", 4_000_000+f.number), Event: "MODIFY", At: f.at,
		Old: before, New: b.image,
	}
}

// changed returns the current image, with a refill at a time and a part of the
// capacity left.
func (b *feedBucket) changed(at int64, left float64) map[string]types.AttributeValue {
	// The old image belongs to the record that was made with it.
	image := maps.Clone(b.image)
	image["rf"] = number(at)
	for _, l := range b.limits {
		image[l.attr+"_tk"], image[l.attr+"_tc"] = number(int64(left*float64(l.capacity))), number(l.used)
	}
	return image
}

func (f *feed) records(n int) []dynamo.StreamRecord {
	all := make([]dynamo.StreamRecord, n)
	for i := range all {
		all[i] = f.record()
	}
	return all
}

// changes returns n records as an aggregator gets them.
func (f *feed) changes(n int) ([]aggregator.Change, error) {
	all := make([]aggregator.Change, n)
	for i := range all {
		c, reason, ok := f.record().Change()
		if !ok {
			return nil, fmt.Errorf("a record of the feed is no change: %s", reason)
		}
		all[i] = c
	}
	return all, nil
}
