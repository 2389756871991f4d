package jsonview

import (
	"net/http"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

func TestFieldsNameUnits(t *testing.T) {
	d := limiter.Decision{}
	for _, name := range []string{
		"rpm", "requests", "tpm", "itpm", "otpd", "tpx", "TPM", "input_tokens", "spend", "spend_daily", "bytes_out", "rpx",
		"widgets", "ipd", "iotpm",
	} {
		d.Statuses = append(d.Statuses, limiter.Status{
			Entity: "key", Limit: limiter.PerMinute(name, 60), Available: 60,
		})
	}
	h := http.Header{}
	Fields(d).Set(h, d)
	const tokens, money = `;q=60;w=60;qu="tokens", `, `;q=60;w=60;qu="usd-millionths", `
	want := `"rpm";q=60;w=60, "requests";q=60;w=60, ` +
		`"tpm"` + tokens + `"itpm"` + tokens + `"otpd"` + tokens + `"tpx";q=60;w=60, "TPM"` + tokens + `"input_tokens"` + tokens +
		`"spend"` + money + `"spend_daily"` + money + `"bytes_out";q=60;w=60;qu="content-bytes", ` +
		`"rpx";q=60;w=60, "widgets";q=60;w=60, "ipd";q=60;w=60, "iotpm";q=60;w=60`
	if got := h.Get("RateLimit-Policy"); got != want {
		t.Errorf("RateLimit-Policy is %s, want %s", got, want)
	}
}
