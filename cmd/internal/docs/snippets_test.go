package docs_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/grpclimit"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/llm"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/sqlite"
	"github.com/zeroae/zae-limiter-go/telemetry"
)

// complete stands for a call to a model. It returns the number of tokens used.
func complete(context.Context) int64 { return 620 }

// user stands for the authentication of a service.
func user(context.Context) string { return "alice" }

// newLimiter returns a limiter of 60 requests and 1,000 tokens a minute.
func newLimiter(t *testing.T) *limiter.RateLimiter {
	t.Helper()
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Limits: []limiter.Limit{
		limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 1_000),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

func TestReadmeProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx := t.Context()
	//docs:readme
	repo, err := sqlite.Open(ctx, "limits.db", nil) // or memory.New(nil), dynamo.Connect(ctx, "my-app", nil)
	if err != nil {
		t.Fatal(err)
	}
	lim, err := limiter.New(repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000))
	if err != nil {
		t.Fatal(err)
	}
	req := limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", 500)}
	err = lim.Do(ctx, req, func(ctx context.Context, l *limiter.Lease) error { return l.Used("tpm", complete(ctx)) })
	//docs:end
	if err := errors.Join(err, repo.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestLimitsOfTheProgram(t *testing.T) {
	repo := memory.New(nil)
	//docs:program-limits
	lim, err := limiter.New(repo, &limiter.Options{Limits: []limiter.Limit{limiter.PerMinute(limiter.RPM, 60)}})
	//docs:end
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lim.Acquire(t.Context(), limiter.Request{
		Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens(limiter.RPM, 60),
	}); err != nil {
		t.Fatal(err)
	}
}

func TestHTTPServer(t *testing.T) {
	lim, mux := newLimiter(t), http.NewServeMux()
	//docs:http-server
	limit := httplimit.New(lim, func(r *http.Request) (limiter.Request, error) {
		return limiter.Request{
			Entity: r.Header.Get("X-Api-Key"), Resource: "api", Consume: limiter.Tokens("rpm", 1),
		}, nil
	}, &httplimit.Options{OnError: func(r *http.Request, err error) {
		slog.ErrorContext(r.Context(), "limits", "error", err)
	}})
	handler := limit.Handler(mux) // for http.ListenAndServe(":8080", handler)
	//docs:end
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	request.Header.Set("X-Api-Key", "key-abc")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	if answer.Header().Get("RateLimit") == "" {
		t.Errorf("the fields are %v", answer.Header())
	}
	request.Header.Del("X-Api-Key")
	answer = httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	if answer.Code != http.StatusUnauthorized {
		t.Errorf("a request without a key gets status %d, want 401", answer.Code)
	}
}

func TestHTTPClient(t *testing.T) {
	lim := newLimiter(t)
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	//docs:http-client
	client := &http.Client{Transport: httplimit.NewTransport(lim, func(r *http.Request) (limiter.Request, error) {
		return limiter.Request{Entity: "our-account", Resource: "their-api", Consume: limiter.Tokens("tpm", 500)}, nil
	}, nil)}
	//docs:end
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	available, err := lim.Available(t.Context(), "our-account", "their-api")
	if err != nil {
		t.Fatal(err)
	}
	if left := available.Get("tpm"); left < 500 || left >= 1_000 { // it refills meanwhile
		t.Errorf("%d tokens are left", left)
	}
}

func TestGRPC(t *testing.T) {
	lim, address, creds := newLimiter(t), "passthrough:///example", grpc.WithTransportCredentials(insecure.NewCredentials())
	//docs:grpc-server
	limits := grpclimit.New(lim, func(ctx context.Context, call grpclimit.Call) (limiter.Request, error) {
		return limiter.Request{Entity: user(ctx), Resource: "chat", Consume: limiter.Tokens("rpm", 1)}, nil
	}, nil)
	server := grpc.NewServer(grpc.UnaryInterceptor(limits.UnaryServer), grpc.StreamInterceptor(limits.StreamServer))
	//docs:end
	//docs:grpc-client
	conn, err := grpc.NewClient(address, creds, grpc.WithUnaryInterceptor(limits.UnaryClient),
		grpc.WithStreamInterceptor(limits.StreamClient))
	//docs:end
	server.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLLM(t *testing.T) {
	ctx, repo, w := t.Context(), memory.New(nil), io.Discard
	body := []byte(`{"model":"gpt-4","messages":[{"role":"user","content":"hello"}],"max_tokens":100}`)
	resp := &http.Response{
		Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(
			`{"usage":{"prompt_tokens":9,"completion_tokens":20,"total_tokens":29}}`,
		)),
	}
	store, err := limiter.New(repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.SetResourceDefaults(
		ctx, "gpt-4", limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 1_000),
	); err != nil {
		t.Fatal(err)
	}
	//docs:llm
	limits, err := limiter.New(repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	lim, err := llm.New(limits, &llm.Options{Limits: llm.Limits{Requests: "rpm", Total: "tpm"}})
	if err != nil {
		t.Fatal(err)
	}

	req, err := llm.ParseRequest(llm.Chat, body, nil)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := lim.Acquire(ctx, "key-abc", req.Model, req)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Rollback(ctx) // does nothing after Commit
	lease.Answer(resp.Header.Get("Content-Type"), resp.Header.Get("Content-Encoding"))
	_, err = io.Copy(w, io.TeeReader(resp.Body, lease))
	if err != nil {
		t.Fatal(err)
	}
	err = lease.Commit(ctx)
	//docs:end
	if err != nil {
		t.Fatal(err)
	}
}

// The functions below need a table, so the compiler alone checks them.
var _ = []any{
	func(ctx context.Context) (*limiter.RateLimiter, error) {
		//docs:escrow
		repo, err := dynamo.Connect(ctx, "my-app", nil)
		if err != nil {
			return nil, err
		}
		lim, err := limiter.New(escrow.New(repo, nil), nil)
		//docs:end
		return lim, err
	},
	func(ctx context.Context) (*limiter.RateLimiter, error) {
		//docs:telemetry
		store, err := dynamo.Connect(ctx, "my-app", &dynamo.Options{CountCapacity: true})
		if err != nil {
			return nil, err
		}
		repo, err := telemetry.New(store, nil)
		if err != nil {
			return nil, err
		}
		lim, err := limiter.New(repo, nil)
		//docs:end
		return lim, err
	},
	func(store *dynamo.Repository) (*telemetry.Repository, error) {
		//docs:telemetry-prices
		repo, err := telemetry.New(store, &telemetry.Options{ReadPrice: 0.125e-6, WritePrice: 0.625e-6})
		//docs:end
		return repo, err
	},
}
