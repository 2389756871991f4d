package figure

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		limit, text string
		want        int64
	}{
		{"tpm", "0", 0},
		{"tpm", "500", 500},
		{"tpm", "10k", 10_000},
		{"tpm", "10K", 10_000},
		{"tpm", "1.5k", 1500},
		{"tpm", "9.2T", 9_200_000_000_000},
		{"tpm", "1.500k", 1500},
		{"tpm", "1.000001G", 1_000_001_000},
		{"tpm", "1M", 1_000_000},
		{"tpm", "2G", 2_000_000_000},
		{"tpm", "9223372036854775807", math.MaxInt64},
		{"spend", "500", 500},
		{"spend", "$50", 50_000_000},
		{"spend", "$0.25", 250_000},
		{"spend", "$12.50", 12_500_000},
		{"spend", "$0.000001", 1},
		{"spend", "$1.5k", 1_500_000_000},
		{"spend", "$1.5K", 1_500_000_000},
		{"spend_daily", "$1", 1_000_000},
	} {
		if got, why := Parse(c.limit, c.text); got != c.want || why != "" {
			t.Errorf("%s %s: %d, %q; want %d", c.limit, c.text, got, why, c.want)
		}
	}
}

func TestParseSaysWhatIsRight(t *testing.T) {
	const whole, dollars = "must be a whole number, such as 500, 10k or 1.5M", "must be dollars such as $50"
	for _, c := range []struct{ limit, text, want string }{
		{"tpm", "", whole},
		{"tpm", "x", whole},
		{"tpm", "-1", whole},
		{"tpm", "+1", whole},
		{"tpm", "01", whole},
		{"tpm", "1.5", whole},
		{"tpm", "1.", whole},
		{"tpm", ".5k", whole},
		{"tpm", "k", whole},
		{"tpm", "0k", whole},
		{"tpm", "0.5M", whole},    // 500k
		{"tpm", "1.2345k", whole}, // not a whole number
		{"tpm", "1.5000k", whole}, // more decimals than the suffix has zeros
		{"tpm", "1.0000001G", whole},
		{"tpm", "1e6", whole},
		{"tpm", "9223372036854775808", whole},
		{"tpm", "9223372036854775807k", whole},
		{"tpm", "1_000K", "must be spelled 1000K"},
		{"tpm", "1t", "must be spelled 1T"},
		{"tpm", "1m", "must be spelled 1M"},
		{"tpm", "10,000", "must be spelled 10000"},
		{"tpm", "1_000 k", "must be spelled 1000k"},
		{"tpm", "$5", "is in dollars, but tpm does not count money"},
		{"spending", "$5", "is in dollars, but spending does not count money"},
		{"spend", "$", dollars},
		{"spend", "$-5", dollars},
		{"spend", "$0.0000001", dollars},
		{"spend", "", dollars},
		{"spend", "50$", dollars},
		{"spend", "€50", dollars},
		{"spend", "$1,000", "must be spelled $1000"},
	} {
		if n, why := Parse(c.limit, c.text); !strings.HasPrefix(why, c.want) || n != 0 {
			t.Errorf("%s %q: %d, %q; want %q", c.limit, c.text, n, why, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"$50", "1.5M", "0", "10,000", "$0.000001", "9223372036854775807", "$9223372036854.775807",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, why := Parse(spend, text)
		if why != "" {
			return
		}
		if again, why := Parse(spend, Dollars(n)); again != n || why != "" {
			t.Errorf("%q is %d, but %s is %d, %s", text, n, Dollars(n), again, why)
		}
	})
}

func TestCentWarning(t *testing.T) {
	const how = "such as $50"
	for _, c := range []struct {
		limit   string
		amounts []int64
		warned  bool
	}{
		{"spend", []int64{50, 0}, true},
		{"spend_daily", []int64{1, Cent - 1}, true},
		{"spend", []int64{1, Cent}, false},
		{"spend", []int64{50_000_000, 0}, false},
		{"tpm", []int64{50, 0}, false},
	} {
		want := ""
		if c.warned {
			want = "the limit is below a cent; if you mean dollars, give them with their sign, such as $50"
		}
		if got := CentWarning(c.limit, "the limit", how, c.amounts...); got != want {
			t.Errorf("%s %d: %q, want %q", c.limit, c.amounts, got, want)
		}
	}
}

func TestIsMoney(t *testing.T) {
	for limit, want := range map[string]bool{
		"spend": true, "spend_daily": true, "spend.eu": true, "spend-2": true,
		"": false, "spending": false, "Spend": false, "ad_spend": false, "tpm": false,
	} {
		if got := IsMoney(limit); got != want {
			t.Errorf("IsMoney(%q) = %v", limit, got)
		}
	}
}

func TestDollars(t *testing.T) {
	for n, want := range map[int64][2]string{
		0:             {"$0.00", "0"},
		1:             {"$0.000001", "0.000001"},
		250_000:       {"$0.25", "0.25"},
		-12_500_000:   {"-$12.50", "-12.5"},
		50_000_000:    {"$50.00", "50"},
		math.MinInt64: {"-$9223372036854.775808", "-9223372036854.775808"},
	} {
		if got := [2]string{Dollars(n), Decimal(n)}; got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	if got := Amount("tpm", -7) + " " + Amount("spend", 10_000); got != "-7 $0.01" {
		t.Errorf("amounts: %s", got)
	}
}

func TestWait(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Millisecond:                                     "0.1s",
		1249 * time.Millisecond:                              "1.3s",
		30 * time.Second:                                     "30s",
		30*time.Second + time.Millisecond:                    "30s",
		30*time.Second + 2*time.Millisecond:                  "30.1s",
		time.Minute:                                          "1m",
		90*time.Second + time.Millisecond:                    "1m30s",
		12 * time.Hour:                                       "12h",
		12*time.Hour + time.Millisecond:                      "12h",
		12*time.Hour + time.Minute + time.Second:             "12h2m",
		47*time.Hour + 59*time.Minute:                        "47h59m",
		47*time.Hour + 59*time.Minute + time.Second:          "2d",
		48 * time.Hour:                                       "2d",
		20*24*time.Hour + 2*time.Hour + time.Second:          "20d3h",
		366*24*time.Hour + 30*time.Minute:                    "366d1h",
		59*time.Second + 900*time.Millisecond:                "59.9s",
		59*time.Second + 901*time.Millisecond:                "1m",
		59*time.Second + 950*time.Millisecond:                "1m",
		60*time.Second + time.Millisecond:                    "1m",
		59*time.Minute + 59*time.Second:                      "59m59s",
		59*time.Minute + 59*time.Second + time.Millisecond:   "59m59s",
		59*time.Minute + 59*time.Second + 2*time.Millisecond: "1h",
		math.MaxInt64:                                        "106752d",
	} {
		if got := Wait(d); got != want {
			t.Errorf("Wait(%v) = %s, want %s", d, got, want)
		}
	}
}
