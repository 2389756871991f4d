package server

import (
	"bufio"
	"context"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"
)

// meter is a connection that counts the bytes of messages, above TLS. It reads
// HTTP/2 as far as the headers of frames. Until a caller is known, it gives gRPC one
// frame after another, as far as the lobby allows.
type meter struct {
	net.Conn
	known, strange book // for callers with and without a token
	// guest is nil once a caller is known.
	guest atomic.Pointer[stranger]
	in    frames
	// ready is how many bytes of the header of a stranger's frame gRPC has yet to read.
	ready  int
	buffer *bufio.Reader // nil until a caller is known
	// bounded reports that the last write had a deadline.
	bounded bool
}

const (
	// frameCost is about what gRPC needs to keep a small frame, besides its bytes.
	frameCost     = 128
	prefaceLength = 24
	// knownBuffer is what gRPC itself would use to read. A stranger has no buffer.
	knownBuffer = 32 << 10
)

// Frames of HTTP/2 (RFC 9113, section 6).
const (
	frameHeader       = 9 // bytes
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameContinuation = 0x9
	flagEndStream     = 0x1
	flagEndHeaders    = 0x4
)

// frames follows HTTP/2 from frame to frame.
type frames struct {
	skip   int // bytes until the next frame
	header [frameHeader]byte
	have   int // bytes of header that have been read
}

// next reads up to the end of the header of a frame. It returns what is left, and
// whether there was a header.
func (f *frames) next(p []byte) (rest []byte, found bool) {
	n := min(f.skip, len(p))
	f.skip, p = f.skip-n, p[n:]

	n = copy(f.header[f.have:], p)
	f.have, p = f.have+n, p[n:]
	// The rest of the header comes with the next read.
	if f.have < frameHeader {
		return nil, false
	}

	f.have, f.skip = 0, f.length()
	return p, true
}

func (f *frames) length() int {
	return int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
}

func (f *frames) kind() byte { return f.header[3] }

func (f *frames) has(flag byte) bool { return f.header[4]&flag != 0 }

func (f *frames) stream() uint32 {
	return uint32(f.header[5]&0x7f)<<24 | uint32(f.header[6])<<16 | uint32(f.header[7])<<8 | uint32(f.header[8])
}

// Read reads from the connection and counts.
func (m *meter) Read(p []byte) (int, error) {
	if guest := m.guest.Load(); guest != nil {
		return m.readStrange(guest, p)
	}
	if m.buffer == nil {
		m.buffer = bufio.NewReaderSize(counting{m}, knownBuffer)
	}
	return m.buffer.Read(p)
}

// counting reads from the connection of a meter and counts.
type counting struct{ *meter }

func (c counting) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	cost := int64(0)
	for rest, found := c.in.next(p[:n]); found; rest, found = c.in.next(rest) {
		// Messages arrive in frames with data.
		if c.in.kind() == frameData {
			cost += int64(c.in.length()) + frameCost
		}
	}
	if cost > 0 {
		c.known.arrive(cost)
		c.strange.arrive(cost)
	}
	return n, err
}

// readStrange reads at most to the end of a frame. It does not begin the next one
// before the stranger may go on.
func (m *meter) readStrange(guest *stranger, p []byte) (int, error) {
	if m.ready == 0 && m.in.skip == 0 {
		if err := guest.wait(); err != nil {
			return 0, err
		}
		for found := false; !found; {
			n, err := m.Conn.Read(m.in.header[m.in.have:])
			if err != nil {
				return 0, err
			}
			if m.in.have += n; m.in.have == frameHeader {
				m.in.have, m.in.skip, found = 0, m.in.length(), true
			}
		}
		if err := guest.admit(&m.in); err != nil {
			return 0, err
		}
		if m.in.kind() == frameData {
			m.strange.arrive(int64(m.in.skip) + frameCost)
		}
		m.ready = frameHeader
	}

	if m.ready > 0 {
		n := copy(p, m.in.header[frameHeader-m.ready:])
		m.ready -= n
		return n, nil
	}

	n, err := m.Conn.Read(p[:min(len(p), m.in.skip)])
	m.in.skip -= n
	return n, err
}

// Write writes to the connection. A stranger has to read in time.
func (m *meter) Write(p []byte) (int, error) {
	guest := m.guest.Load()
	if guest == nil {
		if m.bounded {
			m.bounded = false
			_ = m.SetWriteDeadline(time.Time{})
		}
		return m.Conn.Write(p)
	}

	m.bounded = true
	_ = m.SetWriteDeadline(time.Now().Add(strangerWait))
	guest.write(true)
	n, err := m.Conn.Write(p)
	for rest, found := guest.out.next(p[:n]); found; rest, found = guest.out.next(rest) {
		kind, ends := guest.out.kind(), guest.out.has(flagEndStream)
		if kind == frameReset || ends && (kind == frameHeaders || kind == frameData) {
			guest.answered(guest.out.stream())
		}
	}
	guest.write(false)
	return n, err
}

// Close closes the connection.
func (m *meter) Close() error {
	if guest := m.guest.Load(); guest != nil {
		guest.leave()
	}
	return m.Conn.Close()
}

// metered is a way to secure connections that counts what arrives on them.
type metered struct {
	credentials.TransportCredentials
	known, strange *byteBudget
	lobby          *lobby
}

// ServerHandshake secures a connection. Its AuthInfo has the meter.
func (c metered) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}

	// A connection of HTTP/2 begins with a preface, which is not a frame.
	m := &meter{Conn: conn, in: frames{skip: prefaceLength}}
	m.known.budget, m.strange.budget = c.known, c.strange
	m.guest.Store(c.lobby.receive(raw))
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

// tap gives a stream a context that the server can end, since nothing else stops
// gRPC from waiting for a message. gRPC calls it once it has read the headers of a
// stream and before it reads on, so that this is where a stranger becomes known. It
// rejects no stream: gRPC would not free the timer of a rejected one.
func (g *gate) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	// The context of the stream is its parent, so that it ends with the stream.
	ctx, cut := context.WithCancel(ctx)
	ctx = context.WithValue(ctx, cutKey{}, cut)

	m := meterOf(ctx)
	if m == nil {
		return ctx, nil
	}
	guest := m.guest.Load()
	if guest == nil {
		return ctx, nil
	}

	if g.knows(info.Header) {
		guest.leave()
		m.guest.Store(nil)
		return ctx, nil
	}
	return context.WithValue(ctx, visitKey{}, guest.describe(info.Header)), nil
}
