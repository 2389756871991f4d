package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
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

// frontServe compares an acquire over HTTP, as the program serves it, with an empty
// handler that decodes the same request and sends the same answer.
func frontServe(ctx context.Context, cfg config, r *report, built *program) (err error) {
	server, err := built.serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	limits, err := dialHTTP(ctx, server.http, built.token)
	if err != nil {
		return err
	}
	defer limits.close()
	answer, err := limits.ask()
	if err != nil {
		return err
	}

	process, address, err := startBaseline(ctx, nameSameJSON, string(answer))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, process.close()) }()
	bare, err := dialHTTP(ctx, address, built.token)
	if err != nil {
		return err
	}
	defer bare.close()

	rates := map[string]series{}
	for range cfg.rounds {
		clean()
		counted := map[*httpConns]float64{}
		for range serveTurns { // short turns, so that a change of the machine's load meets both
			for _, at := range []*httpConns{bare, limits} {
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

// httpConns holds open connections to a server, and the request that they send.
type httpConns struct {
	request []byte
	conns   []net.Conn
	readers []*bufio.Reader
}

func dialHTTP(ctx context.Context, address, token string) (*httpConns, error) {
	c := &httpConns{request: fmt.Appendf(nil,
		"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		token, len(serveBody), serveBody)}
	for range serveClients {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			c.close()
			return nil, err
		}
		c.conns = append(c.conns, conn)
		c.readers = append(c.readers, bufio.NewReader(conn))
	}
	return c, nil
}

func (c *httpConns) close() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// ask sends one request on the first connection, and returns the answer.
func (c *httpConns) ask() ([]byte, error) { return c.exchange(0) }

func (c *httpConns) exchange(i int) ([]byte, error) {
	if _, err := c.conns[i].Write(c.request); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(c.readers[i], nil)
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
func (c *httpConns) rate(ctx context.Context, sample time.Duration) (float64, error) {
	var total atomic.Int64
	errs := make([]error, len(c.conns))
	var all sync.WaitGroup
	begin := time.Now()
	for i := range c.conns {
		all.Go(func() {
			for errs[i] == nil && ctx.Err() == nil && time.Since(begin) < sample {
				_, errs[i] = c.exchange(i)
				total.Add(1)
			}
		})
	}
	all.Wait()
	return float64(total.Load()) / time.Since(begin).Seconds(), errors.Join(errs...)
}
