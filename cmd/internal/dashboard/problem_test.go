package dashboard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func TestBadInputGetsASentence(t *testing.T) {
	r := newRig(t, Options{Write: true})
	for _, tt := range []struct{ path, body, want string }{
		{"/api/overview?order=x", "", "parameter order: must be name or tightest"},
		{"/api/overview?limit=0", "", "parameter limit: must be a whole number from 1 to 1000"},
		{"/api/overview?limit=1&limit=2", "", "parameter limit: must have one value"},
		{"/api/overview?colour=red", "", "the parameters are order"},
		{"/api/info?x=1", "", "the call has no parameters"},
		{"/api/overview?after=%ZZ", "", "the query is not valid"},
		{"/api/overview?after=~", "", "after"},
		{"/api/overview?search=" + strings.Repeat("x", 3000), "", "at most 2048 bytes"},
		{"/api/entity", "", "must not be empty"},
		{"/api/entity?id=" + url.QueryEscape("<script>"), "", "must begin with an alphanumeric"},
		{"/api/entity?id=" + strings.Repeat("x", 257), "", "exceeds the maximum length"},
		{"/api/entity?id=a%2Fb", "", "letters, digits"},
		{"/api/entity?id=%F0%9F%98%80", "", "must begin with"},
		{"/api/children?id=", "", "must not be empty"},
		{"/api/usage", "", "parameter entity: is missing"},
		{"/api/usage?entity=a&window=weekly", "", "hourly or daily or monthly"},
		{"/api/usage?entity=a&from=yesterday", "", "parameter from: must be a day"},
		{"/api/usage?entity=a&from=2026-02-01&to=2026-01-01", "", "must not be before from"},
		{"/api/audit?after=x", "", "parameter after: must be the next"},
		{"/api/audit?entity=$RESOURCE:", "", "must not be empty"},
		{"/api/resource?name=", "", "must not be empty"},
		{"/api/explain", `{`, "must be one JSON object"},
		{"/api/explain", `[]`, "must be one JSON object"},
		{"/api/explain", `null`, "must be one JSON object"},
		{"/api/explain", `{} {}`, "nothing after it"},
		{"/api/explain", `{"entity":1}`, "field entity: must be a string, not a JSON number"},
		{"/api/explain", `{"Entität":""}`, "is unknown"},
		{"/api/explain", `{"entity":"a","resource":"gpt-4","consume":{"rpm":-1}}`, "0 or more"},
		{"/api/explain", `{"entity":"a","resource":"gpt-4","consume":{"rpm":1.5}}`, "whole number"},
		{"/api/explain", `{"entity":"a","resource":"nothing","consume":{"rpm":1}}`, "no level stores limits"},
		{"/api/explain", `{"entity":"a","resource":"gpt-4","consume":{"nope":1}}`, "nope"},
		{"/api/watch", `{"id":"x","keys":[["a"]]}`, "pairs of an entity and a resource"},
		{
			"/api/watch",
			`{"id":"x","keys":[` + strings.TrimSuffix(strings.Repeat(`["a","b"],`, 501), ",") + `]}`,
			"at most 500",
		},
		{"/api/what-if", `{"manifest":"a: ["}`, "manifest: "},
		{"/api/what-if", `{"manifest":"{}","entity":"a"}`, "either a manifest"},
		{
			"/api/what-if",
			`{"limits":[{"name":"rpm","capacity":0,"refill_amount":1,"refill_period_seconds":60}]}`, "capacity",
		},
		{"/api/what-if", `{"entity":"a","limits":[],"days":-1}`, "days"},
		{"/api/what-if", `{}`, "give a manifest, or limits"},
		{"/api/what-if", `{"limits":[]}`, "give a manifest, or limits"},
		{"/api/what-if", `{"entity":"a"}`, "give a manifest, or limits"},
		{"/api/what-if", `{"manifest":" \n"}`, "manifest: is empty"},
		{"/api/explain", `{"entity":"a","resource":"gpt-4"}`, "at least one amount"},
		{"/api/explain", `{"entity":"a","resource":"gpt-4","consume":null}`, "at least one amount"},
		{"/api/explain", `{"entity":"a","resource":"gpt-4","consume":{}}`, "at least one amount"},
		{"/api/explain", `{"entity":"a","resource":"gpt-4","consume":{"rpm":null}}`, "whole number"},
		{"/api/explain", `{"entity":"a","entity":"b"}`, `field "entity": occurs twice`},
		{"/api/explain", `{"entity":"a","consume":{"rpm":1,"rpm":2}}`, `field "rpm": occurs twice`},
		{
			"/api/change", `{"action":"set_limits","limits":[{"name":"a"},{"name":"b","name":"c"}]}`,
			`field "name": occurs twice`,
		},
		{
			"/api/change", `{"action":"explode"}`,
			"set_limits, delete_limits, create_entity, disable, enable, reset or top_up",
		},
		{"/api/change", `{"action":"set_limits","entity":"a"}`, "must have 1 to 50 limits"},
		{"/api/change", `{"action":"set_limits","entity":"#"}`, "must not contain"},
		{"/api/change", `{"action":"set_limits","entity":"a","name":"b"}`, "belong to create_entity"},
		{
			"/api/change",
			`{"action":"set_limits","limits":[{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":0}]}`,
			"must be between 1 and",
		},
		{
			"/api/change",
			`{"action":"set_limits","limits":[{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":1,"burst":3}]}`,
			"is unknown",
		},
		{
			"/api/change",
			`{"action":"set_limits","limits":[{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":1},{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":1}]}`,
			"listed twice",
		},
		{"/api/change", `{"action":"delete_limits","entity":"a","limits":[]}`, "belongs to set_limits"},
		{"/api/change", `{"action":"create_entity","entity":"a","parent":"a"}`, "must be another entity"},
		{"/api/change", `{"action":"create_entity","entity":"a","resource":"r"}`, "without a resource"},
	} {
		if detail := fmt.Sprint(r.want(400, tt.path, tt.body)["detail"]); !strings.Contains(detail, tt.want) {
			t.Errorf("%s %s: %q, want %q in it", tt.path, tt.body, detail, tt.want)
		}
	}
	r.want(413, "/api/explain", `{"entity":"`+strings.Repeat("x", maxBody)+`"}`)
}

// failing is a store whose buckets cannot be read.
type failing struct {
	limiter.Repository
	limiter.BucketPager
	err error
}

func (f failing) BucketPage(context.Context, time.Time, limiter.BucketQuery) (limiter.BucketPage, error) {
	return limiter.BucketPage{}, f.err
}

func (f failing) Buckets(context.Context, time.Time, limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	return func(yield func(limiter.Bucket, error) bool) { yield(limiter.Bucket{}, f.err) }
}

func TestErrorsOfTheStore(t *testing.T) {
	for err, want := range map[error]int{
		errors.New("10.0.0.1 refused"): 503, limiter.ErrClosed: 503, context.DeadlineExceeded: 503,
		&limiter.CorruptError{Item: "/srv/10.0.0.1/limits.db: x", Reason: "y"}: 500,
	} {
		r := newRig(t, Options{})
		var reported atomic.Bool
		r.opts.OnError = func(error) { reported.Store(true) }
		r.opts.Open = func(context.Context, string) (limiter.Repository, error) {
			return failing{r.repo, nil, err}, nil
		}
		for _, path := range []string{"/api/overview", "/api/entity?id=a", "/api/resource?name=gpt-4"} {
			answer := r.want(want, path, "")
			if detail := fmt.Sprint(answer["detail"]); strings.Contains(detail, "10.0.0.1") {
				t.Errorf("%s: viewers see %s", path, detail)
			}
			if !reported.Load() {
				t.Errorf("%s: %v is not reported", path, err)
			}
		}
	}
}
