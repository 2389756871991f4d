package server

import (
	"container/list"
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// byteBudget bounds the bytes of messages that have not arrived whole, over all
// connections. gRPC keeps them in memory until the end of a message. Beyond the
// budget the oldest message of the connection that holds most is given up.
type byteBudget struct {
	mu sync.Mutex
	// waits bounds the messages at a time, beyond which the oldest is given up; 0
	// for no bound.
	waits int
	order list.List // of *receipt, oldest first
	most  int64
	held  int64
	// taken counts the bytes of messages that are worked on.
	taken int64
	// books has the connections with a message under way.
	books map[*book]struct{}
}

// book counts the bytes of one connection under a budget. It counts all that arrived
// since the oldest message began, which is an upper bound for what gRPC holds.
type book struct {
	budget   *byteBudget
	arrived  int64
	held     int64
	receipts list.List // of *receipt, oldest first
}

// receipt is a message that is under way.
type receipt struct {
	book *book
	// start is the number of bytes that had arrived when the message began.
	start int64
	place *list.Element // in the book
	turn  *list.Element // in the budget
	cut   context.CancelFunc
}

func newByteBudget(most int64, waits int) *byteBudget {
	return &byteBudget{most: most, waits: waits, books: map[*book]struct{}{}}
}

// begin records that a message is awaited. The receipt's owner calls end, and cut
// gives the message up.
func (b *book) begin(cut context.CancelFunc) *receipt {
	b.budget.mu.Lock()
	defer b.budget.mu.Unlock()

	r := &receipt{book: b, start: b.arrived, cut: cut}
	r.place, r.turn = b.receipts.PushBack(r), b.budget.order.PushBack(r)
	b.budget.books[b] = struct{}{}

	// Silent probes displace each other, so that the newest probe finds a
	// place.
	if b.budget.waits > 0 && b.budget.order.Len() > b.budget.waits {
		oldest, _ := b.budget.order.Front().Value.(*receipt)
		oldest.giveUp()
	}

	return r
}

// end records that the message has arrived, or is not awaited any more.
func (r *receipt) end() {
	r.book.budget.mu.Lock()
	defer r.book.budget.mu.Unlock()
	r.book.drop(r)
}

// giveUp ends the wait for a message.
func (r *receipt) giveUp() {
	r.cut()
	r.book.drop(r)
}

func (b *book) drop(r *receipt) {
	// A message that was given up ends once more, when its receiver returns.
	if r.place == nil {
		return
	}

	b.receipts.Remove(r.place)
	b.budget.order.Remove(r.turn)
	r.place = nil
	b.count()
}

// count brings the sum of the budget up to date.
func (b *book) count() {
	held := int64(0)
	if oldest := b.receipts.Front(); oldest != nil {
		first, _ := oldest.Value.(*receipt)
		held = b.arrived - first.start
	} else {
		delete(b.budget.books, b)
	}

	b.budget.held += held - b.held
	b.held = held
}

// arrive records n bytes.
func (b *book) arrive(n int64) {
	b.budget.mu.Lock()
	defer b.budget.mu.Unlock()
	b.arrived += n
	b.count()

	for b.budget.held > b.budget.most {
		oldest, _ := b.budget.largest().receipts.Front().Value.(*receipt)
		oldest.giveUp()
	}
}

// largest returns the book that holds most.
func (b *byteBudget) largest() (most *book) {
	for each := range b.books {
		if most == nil || each.held > most.held {
			most = each
		}
	}
	return most
}

// meter is a connection that counts the bytes of messages, above TLS. It reads
// HTTP/2 as far as the lengths of frames.
type meter struct {
	net.Conn
	known, strange book // for callers with and without a token
	skip           int  // bytes until the next frame
	header         [9]byte
	have           int // bytes of header that have been read
}

// frameCost is about what gRPC needs to keep a small frame, besides its bytes.
const frameCost = 128

const prefaceLength = 24

// Read reads from the connection and counts.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if cost := m.scan(p[:n]); cost > 0 {
		m.known.arrive(cost)
		m.strange.arrive(cost)
	}
	return n, err
}

// scan returns the cost of the frames with data that begin in p.
func (m *meter) scan(p []byte) (cost int64) {
	for len(p) > 0 {
		if m.skip > 0 {
			n := min(m.skip, len(p))
			m.skip, p = m.skip-n, p[n:]
			continue
		}

		n := copy(m.header[m.have:], p)
		m.have, p = m.have+n, p[n:]
		// The rest of the frame's header comes with the next read.
		if m.have < len(m.header) {
			break
		}

		m.have = 0
		m.skip = int(m.header[0])<<16 | int(m.header[1])<<8 | int(m.header[2])

		// Messages arrive in frames of the type DATA, which is 0.
		if isData := m.header[3] == 0; isData {
			cost += int64(m.skip) + frameCost
		}
	}
	return cost
}

// metered is a way to secure connections that counts what arrives on them.
type metered struct {
	credentials.TransportCredentials
	known, strange *byteBudget
}

// ServerHandshake secures a connection. Its AuthInfo has the meter.
func (c metered) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}

	// A connection of HTTP/2 begins with a preface, which is not a frame.
	m := &meter{Conn: conn, skip: prefaceLength}
	m.known.budget, m.strange.budget = c.known, c.strange
	return m, meteredInfo{info, m}, nil
}

// Clone returns a copy.
func (c metered) Clone() credentials.TransportCredentials {
	c.TransportCredentials = c.TransportCredentials.Clone()
	return c
}

// meteredInfo is the AuthInfo of a connection with its meter.
type meteredInfo struct {
	credentials.AuthInfo
	meter *meter
}

// meterOf returns the meter of a call's connection.
func meterOf(ctx context.Context) *meter {
	from, _ := peer.FromContext(ctx)
	if from == nil {
		return nil
	}

	info, _ := from.AuthInfo.(meteredInfo)
	return info.meter
}

type cutKey struct{}

// tapStream gives a stream a context that the server can end, since nothing else
// stops gRPC from waiting for a message. It rejects no stream: gRPC would not free
// the timer of a rejected one.
func tapStream(ctx context.Context, _ *tap.Info) (context.Context, error) {
	// The context of the stream is its parent, so that it ends with the stream.
	ctx, cut := context.WithCancel(ctx)
	return context.WithValue(ctx, cutKey{}, cut), nil
}

// receiving is a stream whose messages are counted and have to arrive in time.
type receiving struct {
	grpc.ServerStream
	ctx    context.Context //nolint:containedctx // the interface of gRPC has it
	book   *book
	within time.Duration // for the first message; 0 for later ones
}

// Context returns the context of the stream, with its caller.
func (r *receiving) Context() context.Context { return r.ctx }

// RecvMsg receives a message.
func (r *receiving) RecvMsg(message any) error {
	cut, _ := r.ctx.Value(cutKey{}).(context.CancelFunc)
	if cut == nil || r.book == nil {
		return status.Error(codes.Internal, "the connection is not metered")
	}

	awaited := r.book.begin(cut)
	defer awaited.end()

	// A stream may be quiet after its first message.
	if r.within > 0 {
		late := time.AfterFunc(r.within, cut)
		defer late.Stop()
		r.within = 0
	}

	return r.ServerStream.RecvMsg(message)
}
