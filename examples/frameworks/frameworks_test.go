package frameworks

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/memory"
)

// newLimit returns a middleware with 3 requests and 1,000 tokens, and its limiter.
func newLimit(t *testing.T) (*httplimit.Middleware, *limiter.RateLimiter) {
	t.Helper()
	noon := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	lim, err := limiter.New(memory.New(nil), &limiter.Options{
		Now: func() time.Time {
			return noon
		}, Limits: []limiter.Limit{limiter.PerMinute("rpm", 3), limiter.PerMinute("tpm", 1000)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return httplimit.New(lim, func(*http.Request) (limiter.Request, error) { return ask(1), nil }, nil), lim
}

func ask(rpm int64) limiter.Request {
	return limiter.Request{Entity: "key-1", Resource: "api", Consume: limiter.Tokens("rpm", rpm).And("tpm", 100*rpm)}
}

// event reports its use and sends two events, the second after the client has
// seen the first.
func event(ctx context.Context, t *testing.T, w http.ResponseWriter, id string, step <-chan struct{}) {
	t.Helper()
	if err := httplimit.Used(ctx, "tpm", 250); err != nil {
		t.Error(err)
	}
	_, _ = fmt.Fprintf(w, "id %s\n", id)
	if err := http.NewResponseController(w).Flush(); err != nil {
		t.Error(err)
	}
	<-step
	_, _ = io.WriteString(w, "end\n")
}

// routers builds the same service with each framework.
var routers = map[string]func(*testing.T, *httplimit.Middleware, <-chan struct{}) http.Handler{
	"ServeMux": func(t *testing.T, limit *httplimit.Middleware, step <-chan struct{}) http.Handler {
		t.Helper()
		mux := http.NewServeMux()
		mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
			event(r.Context(), t, w, r.PathValue("id"), step)
		})
		return limit.Handler(mux)
	},
	"chi": func(t *testing.T, limit *httplimit.Middleware, step <-chan struct{}) http.Handler {
		t.Helper()
		router := chi.NewRouter()
		router.Use(limit.Handler)
		router.Get("/items/{id}", func(w http.ResponseWriter, r *http.Request) {
			event(r.Context(), t, w, chi.URLParam(r, "id"), step)
		})
		return router
	},
	"echo": func(t *testing.T, limit *httplimit.Middleware, step <-chan struct{}) http.Handler {
		t.Helper()
		router := echo.New()
		router.Use(echo.WrapMiddleware(limit.Handler))
		router.GET("/items/:id", func(c echo.Context) error {
			event(c.Request().Context(), t, c.Response(), c.Param("id"), step)
			return nil
		})
		return router
	},
	"gin": func(t *testing.T, limit *httplimit.Middleware, step <-chan struct{}) http.Handler {
		t.Helper()
		gin.SetMode(gin.ReleaseMode)
		router := gin.New()
		router.GET("/items/:id", func(c *gin.Context) {
			first := true
			c.Stream(func(w io.Writer) bool { // asks for CloseNotify
				if first {
					event(c.Request.Context(), t, c.Writer, c.Param("id"), step)
				}
				first = false
				return false
			})
		})
		return limit.Handler(router)
	},
}

func TestRouters(t *testing.T) {
	for name, build := range routers {
		t.Run(name, func(t *testing.T) {
			limit, lim := newLimit(t)
			step := make(chan struct{})
			server := httptest.NewServer(build(t, limit, step))
			defer server.Close()
			for range 3 {
				stream(t, server, step)
			}
			refused(t, server)
			server.Close()
			d, err := lim.Explain(t.Context(), ask(0))
			if err != nil {
				t.Fatal(err)
			}
			if left := d.Statuses[1].Available; left != 250 {
				t.Errorf("%d tpm are left, want 250", left)
			}
		})
	}
}

// stream reads the first event before it allows the second.
func stream(t *testing.T, server *httptest.Server, step chan<- struct{}) {
	t.Helper()
	resp, err := server.Client().Do(request(t, server))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for _, want := range []string{"id 7", "end"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%s: line %q, want %q", resp.Status, lines.Text(), want)
		}
		if want != "end" {
			step <- struct{}{}
		}
	}
	if resp.Header.Get("RateLimit") == "" {
		t.Error("the answer lacks RateLimit")
	}
}

// refused checks that the service answers with a problem document.
func refused(t *testing.T, server *httptest.Server) {
	t.Helper()
	resp, err := server.Client().Do(request(t, server))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "20" ||
		resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s, %v, %s", resp.Status, resp.Header, text)
	}
}

func request(t *testing.T, server *httptest.Server) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/items/7", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
