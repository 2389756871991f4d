package programs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/hint"
	"github.com/zeroae/zae-limiter-go/cmd/internal/proxy"
	"github.com/zeroae/zae-limiter-go/llm"
	"github.com/zeroae/zae-limiter-go/memory"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/otelsdk"
)

// TestMetricsOfTheProxyAreNotForPages asks for the metrics as Prometheus does, and as a
// web page does that rebinds its own name to this machine.
func TestMetricsOfTheProxyAreNotForPages(t *testing.T) {
	observer, err := otelsdk.Start(t.Context(), &otelsdk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := &proxyOptions{metrics: "127.0.0.1:0"}
	server, err := o.metricsServer(t.Context(), &backing{observer: observer})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- listen.Run(running, nil, server) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	for host, want := range map[string]int{
		server.Addr().String(): http.StatusOK, "localhost": http.StatusOK,
		"page.example": http.StatusMisdirectedRequest,
	} {
		url := "http://" + server.Addr().String() + "/metrics"
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("for host %s the status is %d, want %d", host, resp.StatusCode, want)
		}
	}
}

// TestWarnWithoutBudget checks that prices without a limit of cost are reported, and
// that any level may have the limit.
func TestWarnWithoutBudget(t *testing.T) {
	ctx := t.Context()
	budget := limiter.Quota("money", 1, limiter.EveryMonth)
	for name, tc := range map[string]struct {
		prices string
		set    func(*limiter.RateLimiter) error
		warns  bool
	}{
		"no limit":  {"prices.yaml", func(*limiter.RateLimiter) error { return nil }, true},
		"no prices": {"", func(*limiter.RateLimiter) error { return nil }, false},
		"another limit": {"prices.yaml", func(l *limiter.RateLimiter) error {
			return l.SetSystemDefaults(ctx, limiter.PerMinute("spend", 1))
		}, true},
		"system": {"prices.yaml", func(l *limiter.RateLimiter) error {
			return l.SetSystemDefaults(ctx, budget)
		}, false},
		"resource": {"prices.yaml", func(l *limiter.RateLimiter) error {
			return l.SetResourceDefaults(ctx, "models", budget)
		}, false},
		"entity": {"prices.yaml", func(l *limiter.RateLimiter) error {
			return l.SetLimits(ctx, "alice", "models", budget)
		}, false},
		"entity, any": {"prices.yaml", func(l *limiter.RateLimiter) error {
			return l.SetLimits(ctx, "alice", "", budget)
		}, false},
		"too many to look at": {"prices.yaml", manyLimits(ctx), false},
	} {
		t.Run(name, func(t *testing.T) {
			lim, err := limiter.New(memory.New(nil), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := tc.set(lim); err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			o := &proxyOptions{
				Connection: &kit.Connection{Console: &kit.Console{Err: &said}}, budget: proxyBudget{prices: tc.prices},
			}
			o.warnWithoutBudget(ctx, lim, "money")
			if warns := strings.Contains(said.String(), "no limit named money is in force"); warns != tc.warns {
				t.Errorf("it says %q", said.String())
			}
		})
	}
}

// manyLimits stores limits of more entities than the proxy looks at.
func manyLimits(ctx context.Context) func(*limiter.RateLimiter) error {
	return func(l *limiter.RateLimiter) (err error) {
		for i := range budgetReads {
			err = errors.Join(err, l.SetLimits(ctx, fmt.Sprintf("key-%d", i), "models", limiter.PerMinute("rpm", 1)))
		}
		return err
	}
}

// TestUpstreamAuthHasFurtherHeaders reads a file with a key and a project.
func TestUpstreamAuthHasFurtherHeaders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth")
	if err := os.WriteFile(file, []byte("Authorization: Bearer KEY\r\nopenai-project: proj_1\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	identity := &proxyIdentity{credentials: file}
	opts := &proxy.Options{Identify: proxy.ByHeader("X-User")}
	if err := identity.applyCredentials(opts); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(proxy.Credentials{Name: "Authorization", Value: "Bearer KEY"}, opts.Credentials); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(http.Header{"Openai-Project": {"proj_1"}}, opts.Account); diff != "" {
		t.Error(diff)
	}
}

// TestEachModelThatIsNotSetUpIsNamed reports what the operator has to store for several
// models within a second.
func TestEachModelThatIsNotSetUpIsNamed(t *testing.T) {
	var said strings.Builder
	conn := &kit.Connection{Console: &kit.Console{Err: &said}, Store: "sqlite:l.db"}
	report := reporter(conn, func(err error) { t.Error(err) })
	for _, key := range []string{"a", "b"} {
		for _, model := range []string{"large", "small"} {
			report(&hint.NoLimitsError{Entity: key, Resource: model, Err: limiter.ErrNoLimits})
			report(&limiter.InvalidError{Field: "model", Value: model + "-2", Reason: "has no price", Err: llm.ErrNoPrice})
		}
	}
	for _, want := range []string{
		"for entity a and resource large at", `model "large-2": has no price`, "for entity a and resource small at",
		`model "small-2": has no price`,
	} {
		if strings.Count(said.String(), want) != 1 {
			t.Errorf("%q is not said once:\n%s", want, said.String())
		}
	}
	if strings.Count(said.String(), "\n") != 4 {
		t.Errorf("it says more:\n%s", said.String())
	}
}
