// Command http-gateway answers at most 5 requests a minute for each API key.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/memory"
)

func main() {
	address := flag.String("listen", "127.0.0.1:8080", "the `address` to listen on")
	flag.Parse()

	lim, err := limiter.New(memory.New(nil), &limiter.Options{Limits: []limiter.Limit{limiter.PerMinute("rpm", 5)}})
	if err != nil {
		log.Fatal(err)
	}

	limit := httplimit.New(lim, func(r *http.Request) (limiter.Request, error) {
		return limiter.Request{
			Entity: r.Header.Get("X-Api-Key"), Resource: "api", Consume: limiter.Tokens("rpm", 1),
		}, nil
	}, &httplimit.Options{OnError: func(r *http.Request, err error) {
		slog.ErrorContext(r.Context(), "limits", "error", err)
	}})
	handler := limit.Handler(http.HandlerFunc(hello))

	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())

	// Without a timeout, a client that never ends its headers would hold a
	// connection forever.
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "hello") }
