package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// hold is the part of the quota of bodies that one call has. It is safe for
// concurrent use: the transport may end with a body after the call did.
type hold struct {
	quota  *quota
	entity string

	mu    sync.Mutex
	bytes int64
}

// firstBuffer is the memory for a body before its first byte has arrived.
const firstBuffer = 4 << 10

// resize changes the number of bytes that the call has.
func (h *hold) resize(to int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case to > h.bytes:
		if err := h.quota.take(h.entity, to-h.bytes); err != nil {
			return err
		}
	case to < h.bytes:
		h.quota.give(h.entity, h.bytes-to)
	}
	h.bytes = to
	return nil
}

// release gives everything back.
func (h *hold) release() { _ = h.resize(0) } // less is always possible

// read reads all of r, at most limit bytes, else the error is an
// *http.MaxBytesError. It takes memory as the bytes arrive, so that a client has
// to send what it wants held. The size of r is -1 if it is not known.
func (h *hold) read(r io.Reader, size, limit int64) ([]byte, error) {
	most := limit + 1 // the last byte shows that there are too many
	if size >= 0 {
		most = size
	}
	var all []byte
	for size < 0 || int64(len(all)) < size {
		if len(all) == cap(all) {
			grown, err := h.grow(all, most)
			if err != nil {
				return nil, err
			}
			all = grown
		}
		n, err := r.Read(all[len(all):cap(all)])
		all = all[:len(all)+n]
		if int64(len(all)) > limit {
			return nil, &http.MaxBytesError{Limit: limit}
		}
		switch {
		case errors.Is(err, io.EOF) && int64(len(all)) >= size:
			return all, nil
		case errors.Is(err, io.EOF):
			return nil, &readError{io.ErrUnexpectedEOF}
		case err != nil:
			return nil, &readError{err}
		}
	}
	return all, nil
}

// grow returns a copy of all with room for more, up to most bytes.
func (h *hold) grow(all []byte, most int64) ([]byte, error) {
	room := min(max(firstBuffer, 2*int64(cap(all))), most)
	h.mu.Lock()
	to := h.bytes + room - int64(cap(all))
	h.mu.Unlock()
	if err := h.resize(to); err != nil {
		return nil, err
	}
	grown := make([]byte, len(all), room)
	copy(grown, all)
	return grown, nil
}
