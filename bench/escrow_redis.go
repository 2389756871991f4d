package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// redisCommand is the first argument of a process that runs a Redis. The others
// are its program and its port.
const redisCommand = "-redis"

// serveRedis runs a Redis without files until in ends, or for an hour.
func serveRedis(ctx context.Context, program, port string, in io.Reader, out io.Writer) error {
	return runWhile(ctx, in, out, nil, program, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly",
		"no", "--daemonize", "no")
}

// rateOnRedis is redis_rate on a Redis of its own, on a port of this machine.
type rateOnRedis struct {
	server *child
	client *redis.Client
	rate   *redis_rate.Limiter
}

// startRedis starts a Redis.
func startRedis(ctx context.Context, program string) (*rateOnRedis, error) {
	if _, err := exec.LookPath(program); err != nil {
		return nil, err
	}

	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}

	server, err := start(ctx, nil, thisProgram, redisCommand, program, port)
	if err != nil {
		return nil, err
	}

	// Until it is ready, Redis would refuse connections.
	for ready := false; !ready; {
		line, err := server.line()
		if err != nil {
			return nil, err
		}
		ready = strings.Contains(strings.ToLower(line), "ready to accept connections")
	}

	client := redis.NewClient(&redis.Options{Addr: address})
	return &rateOnRedis{server, client, redis_rate.NewLimiter(client)}, nil
}

// freeAddress returns an address of this machine that is free for the moment.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// allow takes one token of a key's only limit.
func (r *rateOnRedis) allow(ctx context.Context, keys *picker) error {
	result, err := r.rate.Allow(ctx, keys.next(), redis_rate.PerMinute(1e9))
	if err == nil && result.Allowed != 1 {
		err = errors.New("redis_rate refused a call")
	}
	return err
}

func (r *rateOnRedis) close() error {
	if r == nil {
		return nil
	}
	return errors.Join(r.client.Close(), r.server.close())
}
