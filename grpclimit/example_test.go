package grpclimit_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/grpclimit"
	"github.com/zeroae/zae-limiter-go/memory"
)

// byUser charges each call to the user that the metadata names.
func byUser(ctx context.Context, call grpclimit.Call) (limiter.Request, error) {
	user := metadata.ValueFromIncomingContext(ctx, "user")
	if len(user) == 0 {
		return limiter.Request{}, status.Error(codes.Unauthenticated, "name a user")
	}
	return limiter.Request{Entity: user[0], Resource: "chat", Consume: limiter.Tokens("rpm", 1)}, nil
}

// chat is a service with one method.
type chat struct {
	pb.UnimplementedTestServiceServer
}

func (chat) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Username: "hello"}, nil
}

// A server with a limit for each user.
func Example() {
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Limits: []limiter.Limit{limiter.PerMinute("rpm", 2)}})
	if err != nil {
		log.Fatal(err)
	}
	limits := grpclimit.New(lim, byUser, nil)
	server := grpc.NewServer(grpc.UnaryInterceptor(limits.UnaryServer), grpc.StreamInterceptor(limits.StreamServer))
	pb.RegisterTestServiceServer(server, chat{})
	client, stop := connect(server)
	defer stop()

	ctx := metadata.AppendToOutgoingContext(context.Background(), "user", "alice")
	for range 3 {
		reply, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
		fmt.Println(reply.GetUsername(), status.Code(err))
		for _, detail := range status.Convert(err).Details() {
			if retry, ok := detail.(*errdetails.RetryInfo); ok {
				fmt.Println("retry within a minute:", retry.GetRetryDelay().AsDuration().Minutes() < 1)
			}
		}
	}
	// Output:
	// hello OK
	// hello OK
	//  ResourceExhausted
	// retry within a minute: true
}

// A client that stays within the limits of a service, and waits for room.
func ExampleInterceptor_UnaryClient() {
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Limits: []limiter.Limit{limiter.PerMinute("rpm", 60)}})
	if err != nil {
		log.Fatal(err)
	}
	limits := grpclimit.New(lim, func(context.Context, grpclimit.Call) (limiter.Request, error) {
		return limiter.Request{Entity: "us", Resource: "their-api", Consume: limiter.Tokens("rpm", 1)}, nil
	}, nil)
	server := grpc.NewServer()
	pb.RegisterTestServiceServer(server, chat{})
	client, stop := connect(server, grpc.WithUnaryInterceptor(limits.UnaryClient),
		grpc.WithStreamInterceptor(limits.StreamClient))
	defer stop()

	reply, err := client.UnaryCall(context.Background(), &pb.SimpleRequest{})
	fmt.Println(reply.GetUsername(), err)
	// Output: hello <nil>
}

// connect serves on a connection in memory and returns a client.
func connect(server *grpc.Server, opts ...grpc.DialOption) (client pb.TestServiceClient, stop func()) {
	listener := bufconn.Listen(1 << 16)
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///example", append(opts,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))...)
	if err != nil {
		log.Fatal(err)
	}
	return pb.NewTestServiceClient(conn), func() {
		_ = conn.Close()
		server.Stop()
	}
}
