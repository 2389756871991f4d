package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// hold is the part of the pool of bodies that one call has. It is safe for
// concurrent use: the transport may end with a body after the call did.
type hold struct {
	pool   *pool
	client client

	mu    sync.Mutex
	bytes int64
}

// firstBuffer is the memory for a body before its first byte has arrived, and
// largestBuffer the most that is added at a time.
const (
	firstBuffer   = 4 << 10
	largestBuffer = 1 << 20
)

// resize changes the number of bytes that the call has.
func (h *hold) resize(to int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case to > h.bytes:
		if err := h.pool.take(h.client, to-h.bytes); err != nil {
			return err
		}
	case to < h.bytes:
		h.pool.give(h.client, h.bytes-to)
	}
	h.bytes = to
	return nil
}

// release gives everything back.
func (h *hold) release() { _ = h.resize(0) } // less is always possible

// read reads all of r, at most limit bytes, else the error is an
// *http.MaxBytesError. It takes memory as the bytes arrive, so that a client has
// to send what it wants held. The size of r is -1 if it is not known. The bytes come
// in parts, so that none is copied while they grow.
func (h *hold) read(r io.Reader, size, limit int64) ([][]byte, error) {
	// The one byte more shows that the body is too long.
	most := limit + 1
	if size >= 0 {
		most = size
	}

	var parts [][]byte
	var total int64
	// The parts double in size, from 4 KiB to 1 MiB, so a client makes the
	// proxy hold at most twice what it has sent.
	for size < 0 || total < size {
		if n := len(parts); n == 0 || len(parts[n-1]) == cap(parts[n-1]) {
			room := min(max(firstBuffer, total), largestBuffer, most-total)
			if err := h.add(room); err != nil {
				return nil, err
			}
			parts = append(parts, make([]byte, 0, room))
		}

		last := &parts[len(parts)-1]
		n, err := r.Read((*last)[len(*last):cap(*last)])
		*last = (*last)[:len(*last)+n]

		if total += int64(n); total > limit {
			return nil, &http.MaxBytesError{Limit: limit}
		}

		switch {
		// An unknown size is -1, so that any end is the right one.
		case errors.Is(err, io.EOF) && total >= size:
			return parts, nil
		case errors.Is(err, io.EOF):
			return nil, &readError{io.ErrUnexpectedEOF}
		case err != nil:
			return nil, &readError{err}
		}
	}
	return parts, nil
}

// join returns the parts that read returned as one, and gives back their memory.
func (h *hold) join(parts [][]byte) ([]byte, error) {
	var size, held int64
	for _, p := range parts {
		size += int64(len(p))
		held += int64(cap(p))
	}

	// One full part is the whole body already, so there is nothing to copy.
	if len(parts) == 1 && size == held {
		return parts[0], nil
	}

	// For a moment the parts and the copy are both in memory, and both count.
	if err := h.add(size); err != nil {
		return nil, err
	}

	all := make([]byte, 0, size)
	for _, p := range parts {
		all = append(all, p...)
	}
	return all, h.add(-held)
}

// add changes the number of bytes that the call has by n.
func (h *hold) add(n int64) error {
	h.mu.Lock()
	to := h.bytes + n
	h.mu.Unlock()
	return h.resize(to)
}
