// Command grpc limits a gRPC service, and calls it until it is refused.
package main

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/grpclimit"
	"github.com/zeroae/zae-limiter-go/memory"
)

func main() {
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Limits: []limiter.Limit{limiter.PerMinute("rpm", 5)}})
	if err != nil {
		log.Fatal(err)
	}

	limits := grpclimit.New(lim, byUser, nil)
	server := grpc.NewServer(grpc.UnaryInterceptor(limits.UnaryServer), grpc.StreamInterceptor(limits.StreamServer))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())

	// Port 0 lets the system choose a port that is free.
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}

	go func() { log.Fatal(server.Serve(listener)) }()

	if err := call(listener.Addr().String()); err != nil {
		log.Fatal(err)
	}
}

// byUser charges each call to the user that the metadata names. A service with
// logins takes the user from the verified token instead.
func byUser(ctx context.Context, call grpclimit.Call) (limiter.Request, error) {
	user := metadata.ValueFromIncomingContext(ctx, "user")
	if len(user) != 1 {
		return limiter.Request{}, status.Error(codes.Unauthenticated, "the metadata names no user")
	}
	return limiter.Request{Entity: user[0], Resource: "health", Consume: limiter.Tokens("rpm", 1)}, nil
}

// call calls the service until it is refused.
func call(addr string) error {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}

	defer func() { _ = conn.Close() }()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "user", "alice")

	for n := 1; ; n++ {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		fmt.Printf("call %d: %v\n", n, status.Code(err))

		if err == nil {
			continue
		}

		// The server puts the limit and the waiting time into the details of
		// the status.
		for _, detail := range status.Convert(err).Details() {
			switch detail := detail.(type) {
			case *errdetails.QuotaFailure:
				fmt.Println(detail.GetViolations()[0].GetSubject())
			case *errdetails.RetryInfo:
				fmt.Println("retry after", detail.GetRetryDelay().AsDuration())
			}
		}
		return nil
	}
}
