package server

import (
	"container/list"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

	// The message of a stranger is not read before this, so that it counts from its
	// first byte.
	awaited := r.book.begin(cut)
	visitOf(r.ctx).settle()
	defer awaited.end()

	// A stream may be quiet after its first message.
	if r.within > 0 {
		late := time.AfterFunc(r.within, cut)
		defer late.Stop()
		r.within = 0
	}

	return r.ServerStream.RecvMsg(message)
}
