package interop

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

const aliceBucket = "#BUCKET#gpt-4"

// wholeBucket has the other attributes of a bucket in which one limit is
// damaged.
const wholeBucket = `
	entity_id S alice
	resource S gpt-4
	cascade BOOL false
	rf N 1800014400000
	GSI2PK S {ns}/RESOURCE#gpt-4
	GSI2SK S BUCKET#alice
	GSI4PK S {ns}
	GSI4SK S {ns}/ENTITY#alice
	`

// TestDamagedBucketHeals checks that missing parameters come from the limits in
// force, and that a limit without a balance starts full. Other limits keep
// theirs, and unknown attributes stay.
func TestDamagedBucketHeals(t *testing.T) {
	tpm := limiter.Tokens("tpm", 1)
	for name, c := range map[string]struct {
		stored string
		want   map[string]int64 // after a charge of 10 rpm and 1 tpm
	}{
		"remains of Python's adjustment": {
			"b_rpm_tk N -5000\nb_rpm_tc N 5000", map[string]int64{"rpm": 90_000, "tpm": 999_000},
		},
		"nothing but a key": {"", map[string]int64{"rpm": 90_000, "tpm": 999_000}},
		"no limits":         {wholeBucket, map[string]int64{"rpm": 90_000, "tpm": 999_000}},
		"tokens without parameters": {
			wholeBucket + goodTPM + "b_rpm_tk N 0\nb_rpm_tc N 0",
			map[string]int64{"rpm": 90_000, "tpm": 499_000},
		},
		"tokens with some parameters": {
			wholeBucket + goodTPM + "b_rpm_tk N 5000\nb_rpm_cp N 100000",
			map[string]int64{"rpm": 90_000, "tpm": 499_000},
		},
		"parameters without tokens": {
			wholeBucket + goodTPM + "b_rpm_cp N 100000\nb_rpm_ra N 100000\nb_rpm_rp N 60000",
			map[string]int64{"rpm": 90_000, "tpm": 499_000},
		},
		"no capacity": {
			wholeBucket + goodTPM + "b_rpm_tk N 0\nb_rpm_cp N 0\nb_rpm_ra N 100000\nb_rpm_rp N 60000\nb_rpm_tc N 0",
			map[string]int64{"rpm": 90_000, "tpm": 499_000},
		},
		"no period": {
			wholeBucket + goodTPM + "b_rpm_tk N 0\nb_rpm_cp N 100000\nb_rpm_ra N 100000\nb_rpm_rp N 0\nb_rpm_tc N 0",
			map[string]int64{"rpm": 90_000, "tpm": 499_000},
		},
		"no total": {
			wholeBucket + goodTPM + "b_rpm_tk N 50000\nb_rpm_cp N 100000\nb_rpm_ra N 100000\nb_rpm_rp N 60000",
			map[string]int64{"rpm": 40_000, "tpm": 499_000},
		},
		"no copies of the entity's facts": {
			"rf N 1800014400000\nb_rpm_tk N 50000\nb_rpm_cp N 100000\nb_rpm_ra N 100000\nb_rpm_rp N 60000\n" + goodTPM,
			map[string]int64{"rpm": 40_000, "tpm": 499_000},
		},
		"attributes of another version": {
			wholeBucket + goodTPM + goodRPM + "b_rpm_bx N 7\nshard N 3\nb_ S x\nb_tk S x\nl_x_cp N 0",
			map[string]int64{"rpm": 40_000, "tpm": 499_000},
		},
		"more tokens than there is room for": {
			wholeBucket + goodTPM + "b_rpm_tk N 250000\nb_rpm_cp N 100000\nb_rpm_ra N 100000\nb_rpm_rp N 60000",
			map[string]int64{"rpm": 90_000, "tpm": 499_000},
		},
		"numbers with an exponent, as Java's": {
			wholeBucket + goodTPM + "b_rpm_tk N 5E+4\nb_rpm_cp N 1E5\nb_rpm_ra N 100000.0\nb_rpm_rp N 6E4",
			map[string]int64{"rpm": 40_000, "tpm": 499_000},
		},
		"a limit that is not in force any more": {
			wholeBucket + goodTPM + goodRPM + "b_old_tk N 1\nb_old_cp N 0",
			map[string]int64{"rpm": 40_000, "tpm": 499_000},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, &exactOptions)
			w.ours.set(gpt4, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 1000))
			w.PutItem("{ns}/ENTITY#alice", aliceBucket, c.stored)
			w.mustAdmit(w.ours, "alice", rpm(10).And("tpm", 1))
			w.checkTokens("alice", c.want)
			lease := w.ours.hold("alice", "gpt-4", rpm(10))
			lease.commit(rpm(-10))
			w.mustAdmit(w.anotherGo(nil), "alice", tpm)
			if attribute := w.bucket("alice")["shard"]; strings.Contains(c.stored, "shard") && attribute == nil {
				t.Error("an attribute of another version is gone")
			}
		})
	}
}

const (
	goodRPM = "b_rpm_tk N 50000\nb_rpm_cp N 100000\nb_rpm_ra N 100000\nb_rpm_rp N 60000\nb_rpm_tc N 50000\n"
	goodTPM = "b_tpm_tk N 500000\nb_tpm_cp N 1000000\nb_tpm_ra N 1000000\nb_tpm_rp N 60000\nb_tpm_tc N 500000\n"
)

// TestDamagedByPythonHeals checks that Go repairs buckets that Python has
// damaged and cannot charge again.
func TestDamagedByPythonHeals(t *testing.T) {
	t.Parallel()
	p := startPython(t)
	for name, damage := range map[string]func(w *world, py pyProgram){
		"remains of an adjustment": func(w *world, py pyProgram) {
			lease := py.hold("alice", "gpt-4", rpm(10).And("tpm", 1))
			w.dropBucket("alice")
			lease.commit(rpm(5).And("tpm", 5))
			w.Equal("attributes", len(w.bucket("alice")), 6) // key, and tokens and total of both
		},
		"a limit without parameters": func(w *world, py pyProgram) {
			py.set(gpt4, limiter.PerMinute("tpm", 1000))
			slow := w.openPython(p, map[string]any{"speculative_writes": false})
			w.mustAdmit(slow, "alice", limiter.Tokens("tpm", 1))
			py.set(gpt4, limiter.PerMinute("tpm", 1000), limiter.PerMinute("rpm", 100))
			w.wait(defaultCacheTTL)
			w.mustAdmit(slow, "alice", limiter.Tokens("tpm", 0))
			w.Equal("tokens of the new limit", dynamotest.FormatAttribute(w.bucket("alice")["b_rpm_tk"]), "N 0")
			if w.bucket("alice")["b_rpm_cp"] != nil {
				w.Error("it has parameters: the test shows nothing")
			}
		},
		"a limit without tokens": func(w *world, py pyProgram) {
			own := limiter.Scope{Entity: "alice", Resource: "gpt-4"}
			py.set(own, limiter.PerMinute("rpm", 100))
			w.mustAdmit(py, "alice", rpm(0))
			py.set(own, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 1000))
			if w.bucket("alice")["b_tpm_tk"] != nil {
				w.Error("it has tokens: the test shows nothing")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &exactOptions)
			py := w.openPython(p, nil)
			py.set(gpt4, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 1000))
			damage(w, py)
			w.mustAdmit(w.ours, "alice", rpm(10).And("tpm", 100))
			w.checkTokens("alice", map[string]int64{"rpm": 90_000, "tpm": 900_000})
			w.mustAdmit(py, "alice", rpm(10).And("tpm", 100))
			w.checkLeft(py, "alice", map[string]int64{"rpm": 80, "tpm": 800})
		})
	}
}

// checkCorrupt checks that a charge fails as corrupt in both outage modes, with
// and without a cached bucket, and that the error names the item and the remedy.
func (w *world) checkCorrupt(warm goProgram, item, remedy string) {
	w.Helper()
	for who, p := range map[string]goProgram{"cold": w.anotherGo(nil), "warm": warm} {
		for _, mode := range []limiter.OnUnavailable{limiter.Allow, limiter.Block} {
			req := requestOf("alice", "gpt-4", rpm(1))
			req.OnUnavailable = mode
			_, err := p.lim.Acquire(w.Context(), req)
			bad, ok := errors.AsType[*limiter.CorruptError](err)
			if !ok || !strings.Contains(
				bad.Item, strings.ReplaceAll(item, "{ns}", w.NS),
			) || !strings.Contains(bad.Reason, remedy) {
				w.Errorf("%s, mode %s: error %v, want a *CorruptError about %s that says %q", who, mode, err, item,
					remedy)
			}
		}
	}
}

// TestDamagedBucketThatCannotBeReadIsNamed checks that an unreadable bucket is
// no outage, which some callers allow, and that deleting it helps.
func TestDamagedBucketThatCannotBeReadIsNamed(t *testing.T) {
	for _, damage := range []string{
		"b_rpm_tk S many", "b_rpm_cp S 100", "b_rpm_ra BOOL true", "b_rpm_rp NULL", "b_rpm_tk N 0.5",
		"b_rpm_tc S many", "rf S now",
	} {
		t.Run(damage, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, &dynamo.Options{Exact: true, NoRejectionMemory: true})
			w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
			w.mustAdmit(w.ours, "alice", rpm(10))
			it := w.bucket("alice")
			maps.Copy(it, w.Attributes(damage))
			w.put(it)
			w.checkCorrupt(w.ours, "{ns}/ENTITY#alice "+aliceBucket, "delete the item")
			w.dropBucket("alice")
			w.mustAdmit(w.ours, "alice", rpm(100))
			w.mustAdmit(w.anotherGo(nil), "alice", rpm(0))
		})
	}
}

// TestDamagedLimitsThatCannotBeReadAreNamed checks every level: falling back to
// another one would be a guess. Setting the limits helps.
func TestDamagedLimitsThatCannotBeReadAreNamed(t *testing.T) {
	for _, damage := range []string{
		"l_rpm_cp N 0\nl_rpm_ra N 60\nl_rpm_rp N 60", "l_rpm_cp N 60\nl_rpm_ra N 0\nl_rpm_rp N 60",
		"l_rpm_cp N 60\nl_rpm_ra N 60\nl_rpm_rp N 0",
		"l_rpm_cp N 60", "l_rpm_cp N 60\nl_rpm_ra N 60", "l_rpm_cp S sixty\nl_rpm_ra N 60\nl_rpm_rp N 60",
		"l_rpm_cp N -1\nl_rpm_ra N 60\nl_rpm_rp N 60",
	} {
		t.Run(damage, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, &dynamo.Options{CacheTTL: -1})
			for item, s := range map[string]limiter.Scope{
				"{ns}/ENTITY#alice #CONFIG#gpt-4": ofAlice, "{ns}/ENTITY#alice #CONFIG#_default_": {Entity: "alice"},
				"{ns}/RESOURCE#gpt-4 #CONFIG": gpt4, "{ns}/SYSTEM# #CONFIG": {},
			} {
				w.ours.set(s, limiter.PerMinute("rpm", 100))
				w.mustAdmit(w.ours, "alice", rpm(1))
				pk, sk, _ := strings.Cut(item, " ")
				w.PutItem(pk, sk, damage)
				w.checkCorrupt(w.ours, item, "set the limits again")
				w.ours.set(s, limiter.PerMinute("rpm", 100))
				w.mustAdmit(w.ours, "alice", rpm(1))
				w.ours.unset(s)
			}
		})
	}
}

// TestDamagedVersionRecordIsNamed checks that a table with an unreadable version
// is rejected.
func TestDamagedVersionRecordIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, damage := range []string{"schema_version S banana", "schema_version N 8"} {
		w.PutItem("_/SYSTEM#", "#VERSION", damage)
		_, err := dynamo.Connect(t.Context(), w.TableName, &dynamo.Options{
			AWS: dynamotest.Config(dynamotest.Endpoint(t)),
		})
		_, ok := errors.AsType[*limiter.VersionError](err)
		if !ok || !strings.Contains(err.Error(), "_/SYSTEM# #VERSION") ||
			!strings.Contains(err.Error(), "schema_version") {
			t.Errorf("%s: error %v, want one that names the record and the attribute", damage, err)
		}
	}
	w.PutItem("_/SYSTEM#", "#VERSION",
		"schema_version S 0.8.0\nclient_min_version S 0.0.0\nlambda_version NULL\nfuture BOOL true")
	w.mustAdmit(w.anotherGoWithLimits(), "alice", rpm(1))
}

// anotherGoWithLimits connects another Go process and sets limits.
func (w *world) anotherGoWithLimits() goProgram {
	w.Helper()
	p := w.anotherGo(nil)
	p.set(gpt4, limiter.PerMinute("rpm", 100))
	return p
}
