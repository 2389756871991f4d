package main

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"strings"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// redisScript runs a Redis without files until its input ends, or for an hour.
// Its arguments are the program and a free port.
const redisScript = `"$1" --bind 127.0.0.1 --port "$2" --save '' --appendonly no --daemonize no & server=$!
(sleep 3600; kill "$server") >/dev/null 2>&1 & limit=$!
cat >/dev/null
kill "$server" "$limit" 2>/dev/null
wait "$server"`

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
	server, err := start(ctx, nil, "sh", "-c", redisScript, "sh", program, port)
	if err != nil {
		return nil, err
	}
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
