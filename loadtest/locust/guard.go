package locust

import (
	"encoding/binary"
	"fmt"
	"net"
)

// Sizes and flags of ZMTP 3.0.
const (
	greetingSize = 64
	flagMore     = 1
	flagLong     = 2
	shortHeader  = 2 // flags and one byte of length
	longHeader   = 9 // flags and eight bytes of length
)

// guard refuses messages that are too long before zmq4 sees their length, since
// zmq4 allocates what a header announces. One goroutine may read.
type guard struct {
	net.Conn
	skip   int    // bytes before the next header
	header []byte // the part of a header that was read
	total  int    // bytes of the frames of this message
}

func (g *guard) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if tooLong := g.follow(p[:n]); tooLong != nil {
		return 0, tooLong
	}
	return n, err
}

// follow tracks the frames in what was read.
func (g *guard) follow(data []byte) error {
	for len(data) > 0 {
		if skipped := min(g.skip, len(data)); skipped > 0 {
			g.skip -= skipped
			data = data[skipped:]
			continue
		}

		g.header = append(g.header, data[0])
		data = data[1:]
		if err := g.checkHeader(); err != nil {
			return err
		}
	}
	return nil
}

// checkHeader checks a header once it is complete.
func (g *guard) checkHeader() error {
	size := shortHeader
	if g.header[0]&flagLong != 0 {
		size = longHeader
	}
	if len(g.header) < size {
		return nil
	}

	length := uint64(g.header[1])
	if size == longHeader {
		length = binary.BigEndian.Uint64(g.header[1:])
	}

	// The first comparison keeps the conversion to int from overflowing.
	if length > maxMessage || g.total+size+int(length) > maxMessage {
		return fmt.Errorf("a message of the master is longer than %d bytes", maxMessage)
	}

	g.total += size + int(length)
	if g.header[0]&flagMore == 0 {
		g.total = 0
	}

	g.skip, g.header = int(length), g.header[:0]
	return nil
}
