package server

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
)

// gate decides which gRPC calls are read, and which run.
type gate struct {
	server *Server
	before func()
	// open is the prefix of the methods that need no token.
	open string
	// free has a place for each call that runs, and waiting one for each call of a
	// known caller.
	free    chan struct{}
	waiting chan struct{}
	bytes   *byteBudget
	lobby   *lobby
	// receive is the time for a message to arrive.
	receive time.Duration
}

// errNoPlace answers a call that finds no place.
var errNoPlace = status.Error(codes.Unavailable, "too many calls are under way; retry in a second")

// streamTime bounds the streams of known callers, which ask about the services.
const streamTime = time.Minute

// admit authenticates a call before any of its messages is read, and bounds how
// many wait for one.
func (g *gate) admit(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx := stream.Context()
	on := meterOf(ctx)
	if on == nil {
		return status.Error(codes.Internal, "the connection is not metered")
	}

	visit := visitOf(ctx)
	visit.run(true)
	defer visit.run(false)

	// Probes send no token, so that they have a budget of bytes of their own.
	if g.open != "" && strings.HasPrefix(info.FullMethod, g.open) {
		return next(srv, &receiving{stream, ctx, &on.strange, g.receive})
	}

	by, err := g.authenticate(ctx)
	if err != nil {
		return err
	}

	select {
	case g.waiting <- struct{}{}:
		defer func() { <-g.waiting }()
	default:
		return errNoPlace
	}

	// A service that GRPC registers itself, such as reflection, is not converted.
	// A client could keep its streams open for any time.
	if _, isCall := srv.(converted); !isCall {
		if cut, ok := ctx.Value(cutKey{}).(context.CancelFunc); ok {
			defer time.AfterFunc(streamTime, cut).Stop()
		}
	}

	return next(srv, &receiving{stream, context.WithValue(ctx, callerKey{}, by), &on.known, g.receive})
}

// knows reports whether the headers of a stream have a valid token.
func (g *gate) knows(header metadata.MD) bool {
	tokens := g.server.opts.Tokens
	if tokens == nil {
		return true
	}
	_, ok := tokens.CheckBearer(header["authorization"])
	return ok
}

// authenticate returns the caller of a call, from its metadata.
func (g *gate) authenticate(ctx context.Context) (Identity, error) {
	by := anonymous
	if tokens := g.server.opts.Tokens; tokens != nil {
		var ok bool
		if by, ok = tokens.CheckBearer(metadata.ValueFromIncomingContext(ctx, "authorization")); !ok {
			return by, status.Error(codes.Unauthenticated, "a valid token is required: authorization: Bearer TOKEN")
		}
	}

	if !by.Role.Allows(RoleAcquire) {
		return by, status.Error(codes.PermissionDenied, "this call needs a token with the role acquire or admin")
	}
	return by, nil
}

// run runs a call whose message has arrived, if there is a place for it. A probe
// has one already.
func (g *gate) run(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if _, known := ctx.Value(callerKey{}).(Identity); !known {
		return next(ctx, req)
	}

	// The message stays in memory while the call runs, so that it counts
	// against the budget of messages on their way.
	if message, ok := req.(proto.Message); ok {
		size := int64(proto.Size(message))
		if !g.bytes.take(size) {
			return nil, errNoPlace
		}
		defer g.bytes.give(size)
	}

	select {
	case g.free <- struct{}{}:
		defer func() { <-g.free }()
	default:
		return nil, errNoPlace
	}

	// A connection with a call under way must not be replaced.
	if from, ok := peer.FromContext(ctx); ok {
		if conn := listen.ConnOf(from.Addr); conn != nil {
			conn.Begin()
			defer conn.End()
		}
	}

	if g.before != nil {
		g.before()
	}
	return next(ctx, req)
}

// take reserves bytes for a message that is worked on, and reports whether there
// is room.
func (b *byteBudget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken+n > b.most {
		return false
	}
	b.taken += n
	return true
}

func (b *byteBudget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= n
}

// registrar registers the unary methods of a service as streams of one message,
// because gRPC reads the message of a unary call before it asks an interceptor.
type registrar struct {
	server *grpc.Server
	gate   *gate
}

// converted is a service whose unary methods are streams.
type converted struct{ service any }

// RegisterService registers a service.
func (r registrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	own := grpc.ServiceDesc{ServiceName: desc.ServiceName, HandlerType: (*any)(nil), Metadata: desc.Metadata}

	for _, method := range desc.Methods {
		own.Streams = append(own.Streams, grpc.StreamDesc{
			StreamName: method.MethodName, ServerStreams: true, ClientStreams: true,
			Handler: func(srv any, stream grpc.ServerStream) error {
				of, _ := srv.(converted)
				reply, err := method.Handler(of.service, stream.Context(), stream.RecvMsg, r.gate.run)
				if err != nil {
					return err
				}
				return stream.SendMsg(reply)
			},
		})
	}

	for _, stream := range desc.Streams {
		handle := stream.Handler
		stream.Handler = func(srv any, on grpc.ServerStream) error {
			of, _ := srv.(converted)
			return handle(of.service, on)
		}
		own.Streams = append(own.Streams, stream)
	}

	r.server.RegisterService(&own, converted{service})
}

// smallGzip decompresses messages of a bounded size. The compressor that other
// packages register has the bound of plain messages, which a few bytes can fill.
type smallGzip struct{}

const gzipMost = 256 << 10

// Type returns the name of the encoding.
func (smallGzip) Type() string { return "gzip" }

// Do decompresses a message.
func (smallGzip) Do(r io.Reader) ([]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}

	// One byte above the bound shows that there are more.
	plain, err := io.ReadAll(io.LimitReader(z, gzipMost+1))
	if err == nil && len(plain) > gzipMost {
		err = errors.New("a compressed message is above 256 KiB; send it as it is")
	}

	return plain, err
}
