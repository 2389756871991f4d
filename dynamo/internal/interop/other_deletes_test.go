package interop

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// beforeRequest runs work once, before our next request of an operation about an
// entity. The test fails if there is no such request.
func (w *world) beforeRequest(op, entity string, work func()) {
	var done atomic.Bool
	w.Wire.Before(func(c *dynamotest.Call) bool {
		return c.Op == op && strings.Contains(c.Body, "ENTITY#"+entity+`"`)
	}, func() {
		work()
		done.Store(true)
	})
	w.Cleanup(func() {
		if !done.Load() {
			w.Errorf("there was no %s of %s: the test shows nothing", op, entity)
		}
	})
}

// TestOtherMakesTheBucketBeforeWeDo lets both programs find that there is no
// bucket.
func TestOtherMakesTheBucketBeforeWeDo(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
		w.beforeRequest("PutItem", "alice", func() { w.mustAdmit(other, "alice", rpm(30)) })
		w.mustAdmit(w.ours, "alice", rpm(20))
		w.checkTokens("alice", map[string]int64{"rpm": 50_000})
		w.beforeRequest("PutItem", "bob", func() { w.mustAdmit(other, "bob", rpm(90)) })
		w.mustRefuse(w.ours, "bob", rpm(20))
		w.checkTokens("bob", map[string]int64{"rpm": 10_000})
	})
}

// TestOtherTakesBetweenOurReadAndOurWrite charges a bucket that we have cached,
// or have just read.
func TestOtherTakesBetweenOurReadAndOurWrite(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
		w.mustAdmit(other, "alice", rpm(10))
		for range 2 {
			w.beforeRequest("UpdateItem", "alice", func() { w.mustAdmit(other, "alice", rpm(20)) })
			w.mustAdmit(w.ours, "alice", rpm(20))
		}
		w.checkTokens("alice", map[string]int64{"rpm": 10_000})
		w.beforeRequest("UpdateItem", "alice", func() { w.mustAdmit(other, "alice", rpm(5)) })
		w.mustRefuse(w.ours, "alice", rpm(10))
		w.checkTokens("alice", map[string]int64{"rpm": 5_000})
	})
}

// TestOtherDeletesTheBucketBeforeOurWrite checks that a deleted bucket is
// recreated full, once, and that a lease of the old one gives nothing back to
// the new one. TTL deletes buckets in this way too.
func TestOtherDeletesTheBucketBeforeOurWrite(t *testing.T) {
	for name, idle := range map[string]time.Duration{"deleted": 0, "expired": 421 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, &longCache)
			w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
			lease := w.ours.hold("alice", "gpt-4", rpm(10))
			w.wait(idle)
			w.beforeRequest("UpdateItem", "alice", func() { w.dropBucket("alice") })
			w.mustAdmit(w.ours, "alice", rpm(20))
			w.checkTokens("alice", map[string]int64{"rpm": 80_000})
			lease.rollback()
			w.checkTokens("alice", map[string]int64{"rpm": 80_000})
			cold := w.anotherGo(&longCache)
			w.mustAdmit(cold, "alice", rpm(10))
			w.checkTokens("alice", map[string]int64{"rpm": 70_000})
		})
	}
}

// TestOtherDeletesTheEntityBeforeOurWrite checks that the parent gets its tokens
// back, and that an entity without record and limits is left.
func TestOtherDeletesTheEntityBeforeOurWrite(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
		w.ours.set(ofAlice, limiter.PerMinute("rpm", 50))
		w.ours.create(limiter.Entity{ID: "alice", Parent: "org", Cascade: true})
		w.mustAdmit(w.ours, "alice", rpm(10))
		w.beforeRequest("UpdateItem", "alice", func() { other.remove("alice") })
		w.mustAdmit(w.ours, "alice", rpm(20))
		w.checkTokens("alice", map[string]int64{"rpm": 80_000})
		w.checkParent("alice", "false", "")
		w.checkTokens("org", map[string]int64{"rpm": 90_000})
	})
}

// TestOtherDeletesTheBucketOfALease checks that give-backs to a missing bucket
// are dropped. A late debit recreates a bucket that expired, but not one that
// was deleted.
func TestOtherDeletesTheBucketOfALease(t *testing.T) {
	settlements := map[string]func(openLease){
		"gives":      func(h openLease) { h.commit(rpm(-4)) },
		"takes":      func(h openLease) { h.commit(rpm(5)) },
		"rolls back": openLease.rollback,
	}
	ends := map[string]func(w *world, other program){
		"bucket deleted": func(w *world, _ program) { w.dropBucket("alice") },
		"entity deleted": func(_ *world, other program) { other.remove("alice") },
		"expired": func(w *world, _ program) {
			w.wait(421 * time.Second)
			w.dropBucket("alice")
		},
	}
	for end, happens := range ends {
		t.Run(end, func(t *testing.T) {
			eachOther(t, &longCache, func(w *world, other program) {
				w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
				for name, settle := range settlements {
					lease := w.ours.hold("alice", "gpt-4", rpm(10))
					happens(w, other)
					settle(lease)
					if end == "expired" && name == "takes" {
						w.checkTokens("alice", map[string]int64{"rpm": 95_000})
						w.dropBucket("alice")
					}
					if it := w.bucket("alice"); it != nil {
						w.Errorf("%s: there is a bucket again: %s", name, dynamotest.FormatItem(it))
						w.dropBucket("alice")
					}
					w.Repo.Forget()
				}
			})
		})
	}
}

// TestOtherDeletesTheParentsBucketOfALease checks that the child's bucket is
// still settled.
func TestOtherDeletesTheParentsBucketOfALease(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
		w.ours.create(limiter.Entity{ID: "kid", Parent: "org", Cascade: true})
		kept, undone := w.ours.hold("kid", "gpt-4", rpm(30)), w.ours.hold("kid", "gpt-4", rpm(30))
		other.remove("org")
		kept.commit(rpm(-10))
		undone.rollback()
		w.checkTokens("kid", map[string]int64{"rpm": 80_000})
		w.checkNoBucket("org")
	})
}

// TestOtherReplacesTheBucketOfALease checks that a give-back never lifts the new
// bucket above its capacity.
func TestOtherReplacesTheBucketOfALease(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
		lease := w.ours.hold("alice", "gpt-4", rpm(50))
		w.dropBucket("alice")
		w.mustAdmit(other, "alice", rpm(1))
		lease.rollback()
		if left := w.ours.left("alice", "gpt-4")["rpm"]; left > 100 {
			w.Errorf("%d left of 100", left)
		}
		w.mustRefuse(w.ours, "alice", rpm(101))
	})
}

// keysMentioning returns the keys of all items that contain a namespace ID.
func (w *world) keysMentioning(id string) (keys []string) {
	w.Helper()
	out, err := w.Client.Scan(w.Context(), &dynamodb.ScanInput{TableName: &w.TableName, ConsistentRead: aws.Bool(true)})
	w.Must(err)
	for _, it := range out.Items {
		if strings.Contains(strings.Join(dynamotest.FormatItem(it), "\n"), id) {
			keys = append(keys, dynamotest.FormatAttribute(it["PK"])+" "+dynamotest.FormatAttribute(it["SK"]))
		}
	}
	slices.Sort(keys)
	return keys
}
