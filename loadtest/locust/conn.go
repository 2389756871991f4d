package locust

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
)

// link is a connection to a master. One goroutine may send while another
// receives.
type link interface {
	send(m message) error
	// receive returns the next message. A message that cannot be understood is an
	// error of type *garbageError, and the link remains usable.
	receive() (message, error)
	// close waits until the master has received what was sent, but not for long.
	// A blocked receive returns.
	close() error
}

// garbageError reports bytes that are no message of Locust.
type garbageError struct{ err error }

func (e *garbageError) Error() string { return e.err.Error() }
func (e *garbageError) Unwrap() error { return e.err }

// conn is a link over TCP.
type conn struct {
	tcp     net.Conn
	zmtp    *zmq4.Conn
	worker  string
	timeout time.Duration
}

const (
	sendTimeout  = 5 * time.Second
	lingerLimit  = time.Second
	keepAlive    = 30 * time.Second
	drainedBytes = 4 << 10
)

// dial connects to a master and performs the handshake. It takes no longer than
// the context allows.
func dial(ctx context.Context, address, worker string) (link, error) {
	dialer := net.Dialer{KeepAlive: keepAlive}
	tcp, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}

	// The handshake takes no context, so the end of ctx closes the connection
	// under it.
	expired := context.AfterFunc(ctx, func() { _ = tcp.Close() })
	zmtp, err := zmq4.Open(&guard{Conn: tcp, skip: greetingSize}, null.Security(), zmq4.Dealer,
		zmq4.SocketIdentity(worker), false, nil)
	// If ctx ended right after the handshake, the connection is closed already.
	if !expired() && err == nil {
		err = ctx.Err()
	}

	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s does not answer as a Locust master: %w", address, err), tcp.Close())
	}
	return &conn{tcp: tcp, zmtp: zmtp, worker: worker, timeout: sendTimeout}, nil
}

func (c *conn) send(m message) error {
	frame, err := m.encode(c.worker)
	if err != nil {
		return fmt.Errorf("message %q: %w", m.kind, err)
	}

	if err := c.tcp.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	return c.zmtp.SendMsg(zmq4.NewMsg(frame))
}

func (c *conn) receive() (message, error) {
	for {
		frames, err := c.zmtp.RecvMsg()
		if err != nil {
			return message{}, err
		}
		// A command belongs to ZMTP itself and carries no message of Locust.
		if frames.Type == zmq4.CmdMsg {
			continue
		}

		m, err := decodeMessage(frames.Bytes())
		if err != nil {
			return message{}, &garbageError{err}
		}
		return m, nil
	}
}

// close ends the sending side and leaves the receiving one open until the master
// closes its own. A connection that is closed with unread bytes is reset, and the
// master could lose the last report.
func (c *conn) close() error {
	if half, ok := c.tcp.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_ = c.tcp.SetReadDeadline(time.Now().Add(lingerLimit))
		c.drain()
	}
	return c.tcp.Close()
}

// drain reads to the end. It may share the bytes with a receive that still runs.
func (c *conn) drain() {
	buffer := make([]byte, drainedBytes)
	for {
		if _, err := c.tcp.Read(buffer); err != nil {
			return
		}
	}
}
