// Package grpclimit limits gRPC calls, on the side of the server or the client.
//
//	limits := grpclimit.New(lim, func(ctx context.Context, call grpclimit.Call) (limiter.Request, error) {
//		return limiter.Request{Entity: user(ctx), Resource: "chat", Consume: limiter.Tokens("rpm", 1)}, nil
//	}, nil)
//	server := grpc.NewServer(grpc.UnaryInterceptor(limits.UnaryServer), grpc.StreamInterceptor(limits.StreamServer))
//
// An interceptor acquires a lease before the call and ends it afterwards. A server
// rolls back if it did not do the work, and a client if the other side did not count
// the call. Otherwise they commit. [Lease] returns the lease inside of a handler,
// and [Used] corrects it.
//
// A refused call has the code ResourceExhausted, with the details RetryInfo, unless
// no retry helps, and QuotaFailure with the exceeded limits. An outage of the store
// is Unavailable, and bad input is InvalidArgument. No status contains an ID or
// anything about the parent of an entity. On the side of the client, the errors of
// package limiter are found with [errors.As] as well.
package grpclimit
