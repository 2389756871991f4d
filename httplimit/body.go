package httplimit

import (
	"io"
	"sync"
)

// body is a response's body that calls end after it is closed.
type body struct {
	io.ReadCloser
	end func() // runs once
}

// Close closes the body and settles the lease.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// duplex is a body that can be written, after status 101.
type duplex struct {
	*body
	io.Writer
}

// onClose returns a body that calls end once when it is closed.
func onClose(below io.ReadCloser, end func()) io.ReadCloser {
	b := &body{below, sync.OnceFunc(end)}
	if w, ok := below.(io.Writer); ok {
		return duplex{b, w}
	}
	return b
}
