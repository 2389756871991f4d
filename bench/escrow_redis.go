package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// redisScript runs a Redis without files until its input ends, or for an hour.
// Its arguments are the program and the socket.
const redisScript = `"$1" --port 0 --unixsocket "$2" --save '' --appendonly no --daemonize no & server=$!
(sleep 3600; kill "$server") >/dev/null 2>&1 & limit=$!
cat >/dev/null
kill "$server" "$limit" 2>/dev/null
wait "$server"`

// rateOnRedis is redis_rate on a Redis of its own. Both talk through a socket of
// the machine, which is faster than TCP.
type rateOnRedis struct {
	server *child
	folder string
	client *redis.Client
	rate   *redis_rate.Limiter
}

// startRedis starts a Redis.
func startRedis(ctx context.Context, program string) (_ *rateOnRedis, err error) {
	folder, err := os.MkdirTemp("", "zae-limiter-bench-")
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(folder, "redis.sock")
	server, err := start(ctx, nil, "sh", "-c", redisScript, "sh", program, socket)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	for ready := false; !ready; {
		line, err := server.line()
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(folder))
		}
		ready = strings.Contains(line, "Ready to accept connections") || strings.Contains(line, "ready to accept connections")
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	return &rateOnRedis{server, folder, client, redis_rate.NewLimiter(client)}, nil
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
	return errors.Join(r.client.Close(), r.server.close(), os.RemoveAll(r.folder))
}
