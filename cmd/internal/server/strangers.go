package server

import (
	"container/list"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
)

// lobby bounds what gRPC holds for strangers, over all connections. A stranger is a
// connection without a stream that had a valid token, so far. Beyond the bound the connection
// with the oldest stream that is not answered is closed.
type lobby struct {
	mu    sync.Mutex
	most  int64
	held  int64
	order list.List // of *visit, oldest first
}

// stranger is a connection of the lobby, whose mutex guards its fields. gRPC reads its
// next frame only when its last stream waits for a message, or is answered, and when
// its client has read what was written. Otherwise gRPC would read many streams before
// one of their handlers runs.
type stranger struct {
	lobby  *lobby
	raw    net.Conn        // below TLS
	closed <-chan struct{} // once raw is closed; nil if that is unknown
	// visits has the streams that are not answered, by their numbers.
	visits map[uint32]*visit
	// last is the stream to wait for.
	last *visit
	// loose is a frame with data that has not arrived whole.
	loose *visit
	// block reports that the headers of last have not arrived whole.
	block   bool
	writing bool
	left    bool
	changed chan struct{}
	out     frames // what was written; only the writer uses it
}

// visit is a stream of a stranger. A nil visit is one of a known caller.
type visit struct {
	of     *stranger
	stream uint32
	cost   int64
	turn   *list.Element // nil once it holds nothing
	// settled reports that the stranger may send its next frame.
	settled bool
	running bool // the handler
	reset   bool // by the client
}

// Bounds of strangers.
const (
	// lobbyBytes bounds the costs of all strangers.
	lobbyBytes = 8 << 20
	// visitCost is about what gRPC needs for a stream, its goroutine and its context.
	visitCost = 16 << 10
	// A byte of compressed headers can name a field that was sent before, so that it
	// costs fieldCost. But gRPC accepts no more than grpcHeaderSize of fields, and a
	// field counts as 33 bytes at least.
	fieldCost  = 132
	headerMost = grpcHeaderSize / 33 * fieldCost
	// strangerHeader bounds the headers of a stream without a token, and strangerFrame
	// the frames of a stranger that belong to no stream.
	strangerHeader = 16 << 10
	strangerFrame  = 1 << 10
	// dataStep is a size of gRPC's buffers.
	dataStep = 4 << 10
	// strangerWait is the time for a stranger to read what was written, and for a
	// handler to begin.
	strangerWait = 5 * time.Second
)

var (
	errStrangerFrame = errors.New("the client sent a frame that needs a token")
	errStrangerRoom  = errors.New("other clients without a token took the room of this one")
	errStrangerWait  = errors.New("the client did not read its answer in time")
)

// receive returns a stranger on a connection.
func (l *lobby) receive(raw net.Conn) *stranger {
	s := &stranger{lobby: l, raw: raw, visits: map[uint32]*visit{}, changed: make(chan struct{}, 1)}
	if conn, ok := raw.(*listen.Conn); ok {
		s.closed = conn.Closed()
	}
	return s
}

// wait waits until the stranger may send its next frame.
func (s *stranger) wait() error {
	if s.mayGoOn() {
		return nil
	}

	late := time.NewTimer(strangerWait)
	defer late.Stop()
	for {
		select {
		case <-s.changed:
		case <-s.closed:
			return net.ErrClosed
		case <-late.C:
			return errStrangerWait
		}
		if s.mayGoOn() {
			return nil
		}
	}
}

func (s *stranger) mayGoOn() bool {
	s.lobby.mu.Lock()
	defer s.lobby.mu.Unlock()
	// What has left has nothing to wait for.
	return s.left || !s.writing && (s.last == nil || s.last.settled || s.block)
}

// wake lets wait look again.
func (s *stranger) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// admit makes room for a frame whose header has arrived. Its error ends the
// connection.
func (s *stranger) admit(frame *frames) error {
	s.lobby.mu.Lock()
	var evicted []net.Conn
	err := s.enter(frame, &evicted)
	s.lobby.mu.Unlock()

	// Close of a connection may lock the set of connections.
	for _, conn := range evicted {
		_ = conn.Close()
	}
	return err
}

func (s *stranger) enter(frame *frames, evicted *[]net.Conn) error {
	if s.left {
		return net.ErrClosed
	}

	// The frame with data has arrived whole, so that gRPC keeps it for its stream.
	if frame := s.loose; frame != nil {
		s.loose = nil
		frame.drop()
		if of := s.visits[frame.stream]; of != nil {
			of.add(frame.cost)
		}
	}

	at, length := s.visits[frame.stream()], int64(frame.length())
	switch kind := frame.kind(); {
	case kind == frameHeaders && at == nil && !s.block:
		at = &visit{of: s, stream: frame.stream()}
		s.visits[at.stream], s.last = at, at
		s.block = !frame.has(flagEndHeaders)
		return at.grow(visitCost+min(length*fieldCost, headerMost), evicted)
	case kind == frameContinuation && at != nil && s.block:
		s.block = !frame.has(flagEndHeaders)
		return at.grow(min(length*fieldCost, visitCost+headerMost-at.cost), evicted)
	case kind == frameHeaders, kind == frameContinuation, s.block:
		return errStrangerFrame
	case kind == frameData:
		s.loose = &visit{of: s, stream: frame.stream()}
		return s.loose.grow(frameCost+(length+dataStep-1)/dataStep*dataStep, evicted)
	case length > strangerFrame:
		return errStrangerFrame
	case kind == frameReset && at != nil:
		at.reset, at.settled = true, !at.running
		s.last = at
		at.over()
	}
	return nil
}

// grow adds a cost, for which it closes the oldest connections if there is no room.
func (v *visit) grow(cost int64, evicted *[]net.Conn) error {
	l := v.of.lobby
	for l.held+cost > l.most && l.order.Len() > 0 {
		oldest, _ := l.order.Front().Value.(*visit)
		oldest.of.forget()
		*evicted = append(*evicted, oldest.of.raw)
	}
	if v.of.left {
		return errStrangerRoom
	}

	if v.turn == nil {
		v.turn = l.order.PushBack(v)
	}
	v.add(cost)
	return nil
}

func (v *visit) add(cost int64) {
	if v.turn != nil {
		v.cost += cost
		v.of.lobby.held += cost
	}
}

// drop removes the cost.
func (v *visit) drop() {
	if v.turn != nil {
		v.of.lobby.held -= v.cost
		v.of.lobby.order.Remove(v.turn)
		v.turn = nil
	}
}

// over ends a visit whose stream is reset, once its handler has returned.
func (v *visit) over() {
	if v.reset && !v.running {
		v.settled = true
		v.drop()
		delete(v.of.visits, v.stream)
		v.of.wake()
	}
}

// forget ends all visits.
func (s *stranger) forget() {
	s.left = true
	if s.loose != nil {
		s.loose.drop()
	}
	for _, v := range s.visits {
		v.drop()
	}
	clear(s.visits)
	s.last = nil
	s.wake()
}

// leave says that the connection is closed, or that its caller is known.
func (s *stranger) leave() {
	s.lobby.mu.Lock()
	defer s.lobby.mu.Unlock()
	s.forget()
}

// write says whether a write is under way.
func (s *stranger) write(on bool) {
	s.lobby.mu.Lock()
	defer s.lobby.mu.Unlock()
	s.writing = on
	s.wake()
}

// answered ends the visit of a stream whose answer was written.
func (s *stranger) answered(stream uint32) {
	s.lobby.mu.Lock()
	defer s.lobby.mu.Unlock()
	if v := s.visits[stream]; v != nil {
		v.settled = true
		v.drop()
		delete(s.visits, stream)
	}
}

type visitKey struct{}

// describe replaces the estimate for the headers of the last stream, which gRPC has
// read. It returns the visit.
func (s *stranger) describe(header metadata.MD) *visit {
	size := 0
	for key, values := range header {
		for _, value := range values {
			size += len(key) + len(value) + 32 // as in HTTP/2
		}
	}
	if size > strangerHeader {
		_ = s.raw.Close()
	}

	s.lobby.mu.Lock()
	defer s.lobby.mu.Unlock()
	if s.last != nil {
		s.last.add(visitCost + 4*int64(size) - s.last.cost)
	}
	return s.last
}

// visitOf returns the visit of a stream, or nil if its connection is not a stranger.
func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// settle says that the stream waits for its message, so that it may be read.
func (v *visit) settle() {
	if v == nil {
		return
	}
	v.of.lobby.mu.Lock()
	defer v.of.lobby.mu.Unlock()
	v.settled = true
	v.of.wake()
}

// run says whether the handler of the stream runs.
func (v *visit) run(on bool) {
	if v == nil {
		return
	}
	v.of.lobby.mu.Lock()
	defer v.of.lobby.mu.Unlock()
	v.running = on
	v.over()
}

// stay says that the stream is counted elsewhere, so that it does not have to go when
// others come.
func (v *visit) stay() {
	if v == nil {
		return
	}
	v.of.lobby.mu.Lock()
	defer v.of.lobby.mu.Unlock()
	v.drop()
}
