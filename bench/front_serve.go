package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/listen"
	"github.com/zeroae/zae-limiter-go/internal/server"
	"github.com/zeroae/zae-limiter-go/memory"
)

// Names of the servers in the table.
const (
	nameSameJSON = "empty handler, same JSON"
	nameServe    = "serve, acquire"
)

// serveClients is the number of connections, each with one request at a time.
const serveClients = 16

// serveTurns is how often the servers take turns in a round.
const serveTurns = 10

const serveBody = `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":1,"tpm":500},"commit":true}`

// frontServe compares an acquire over HTTP with an empty handler that decodes the
// same request and sends the same answer, both behind the same listener.
func frontServe(ctx context.Context, cfg config, r *report) (err error) {
	repo := memory.New(nil)
	defer func() { err = errors.Join(err, repo.Close()) }()
	limits, err := limitServer(ctx, repo)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, limits.stop()) }()
	answer, err := limits.ask()
	if err != nil {
		return err
	}
	bare, err := startHTTP(ctx, sameJSON(answer))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.stop()) }()
	rates := map[string]series{}
	for range cfg.rounds {
		clean()
		counted := map[*benchServer]float64{}
		for range serveTurns { // short turns, so that a change of the machine's load meets both
			for _, at := range []*benchServer{bare, limits} {
				rate, err := at.rate(ctx, cfg.sample/serveTurns)
				if err != nil {
					return err
				}
				counted[at] += rate / serveTurns
			}
		}
		rates[nameSameJSON] = append(rates[nameSameJSON], counted[bare])
		rates[nameServe] = append(rates[nameServe], counted[limits])
	}
	share := rates[nameServe].over(rates[nameSameJSON])
	r.atLeast(0.5, share, "front: requests/s of serve / of an empty handler with the same JSON, %d connections",
		serveClients)
	return r.table([]string{"server", "requests/s", "share"}, [][]string{
		{nameSameJSON, rates[nameSameJSON].nanos(), ""},
		{nameServe, rates[nameServe].nanos(), share.ratio()},
	})
}

// sameJSON returns a handler that decodes a request and always sends answer.
func sameJSON(answer []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Entity   string           `json:"entity_id"`
			Resource string           `json:"resource"`
			Consume  map[string]int64 `json:"consume"`
			Commit   bool             `json:"commit"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})
}

// limitServer starts a server with limits that never refuse.
func limitServer(ctx context.Context, repo limiter.Repository) (*benchServer, error) {
	lim, err := limiter.New(repo, nil)
	if err != nil {
		return nil, err
	}
	err = lim.SetSystemDefaults(ctx, limiter.Custom("rpm", plenty, 1_000_000, time.Minute),
		limiter.Custom("tpm", plenty, 1_000_000, time.Minute))
	if err != nil {
		return nil, err
	}
	handler, err := server.New(repo, nil)
	if err != nil {
		return nil, err
	}
	return startHTTP(ctx, handler)
}

// benchServer is a server on a loopback address with open connections to it.
type benchServer struct {
	end     context.CancelFunc
	done    chan error
	request []byte
	conns   []net.Conn
	readers []*bufio.Reader
}

func startHTTP(ctx context.Context, handler http.Handler) (*benchServer, error) {
	listener, err := listen.Bind(ctx, "127.0.0.1:0", false)
	if err != nil {
		return nil, err
	}
	running, end := context.WithCancel(ctx)
	s := &benchServer{end: end, done: make(chan error, 1)}
	go func() { s.done <- listen.Run(running, nil, listen.HTTP(listener, handler, nil)) }()
	s.request = fmt.Appendf(nil,
		"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "+
			"%d\r\n\r\n%s",
		len(serveBody), serveBody)
	for range serveClients {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.conns = append(s.conns, conn)
		s.readers = append(s.readers, bufio.NewReader(conn))
	}
	return s, nil
}

func (s *benchServer) stop() error {
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.end()
	return <-s.done
}

// ask sends one request on the first connection, and returns the answer.
func (s *benchServer) ask() ([]byte, error) { return s.exchange(0) }

func (s *benchServer) exchange(i int) ([]byte, error) {
	if _, err := s.conns[i].Write(s.request); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(s.readers[i], nil)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", res.StatusCode, body)
	}
	return body, errors.Join(err, res.Body.Close())
}

// rate returns the requests per second over all connections.
func (s *benchServer) rate(ctx context.Context, sample time.Duration) (float64, error) {
	var total atomic.Int64
	errs := make([]error, len(s.conns))
	var all sync.WaitGroup
	begin := time.Now()
	for i := range s.conns {
		all.Go(func() {
			for errs[i] == nil && ctx.Err() == nil && time.Since(begin) < sample {
				_, errs[i] = s.exchange(i)
				total.Add(1)
			}
		})
	}
	all.Wait()
	return float64(total.Load()) / time.Since(begin).Seconds(), errors.Join(errs...)
}
