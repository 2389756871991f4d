package jsonview

import (
	"net/http"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

func TestFieldsNameUnits(t *testing.T) {
	d := limiter.Decision{}
	for _, name := range []string{"rpm", "requests", "tpm", "spend", "spend_daily", "bytes_out", "rpx"} {
		d.Statuses = append(d.Statuses, limiter.Status{
			Entity: "key", Limit: limiter.PerMinute(name, 60), Available: 60,
		})
	}
	h := http.Header{}
	Fields(d).Set(h, d)
	want := `"rpm";q=60;w=60, "requests";q=60;w=60, "tpm";q=60;w=60;qu="tokens", "spend";q=60;w=60;qu="usd-millionths", "spend_daily";q=60;w=60;qu="usd-millionths", "bytes_out";q=60;w=60;qu="content-bytes", "rpx";q=60;w=60;qu="tokens"`
	if got := h.Get("RateLimit-Policy"); got != want {
		t.Errorf("RateLimit-Policy is %s, want %s", got, want)
	}
}
