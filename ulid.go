package limiter

import (
	"crypto/rand"
	"sync"
	"time"
)

// ulids generates identifiers of 26 characters that sort by time. They increase
// strictly, even within a millisecond and if the clock goes back.
type ulids struct {
	mu   sync.Mutex
	last [16]byte // 48 bits of milliseconds, 80 random ones
}

func (u *ulids) next(now time.Time) string {
	u.mu.Lock()
	defer u.mu.Unlock()

	var id [16]byte
	ms := uint64(max(0, now.UnixMilli()))
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}

	if string(id[:6]) > string(u.last[:6]) {
		// rand.Read never fails.
		_, _ = rand.Read(id[6:])
		u.last = id
	} else {
		// The time is not after the last one. Adding one to the last identifier
		// keeps the order.
		for i := len(u.last) - 1; i >= 0; i-- {
			u.last[i]++
			if u.last[i] != 0 {
				break
			}
		}
	}

	return crockford(u.last)
}

// crockford encodes 128 bits in Crockford's base 32, with two zero bits in front.
func crockford(id [16]byte) string {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	var out [26]byte
	var bits uint32
	// Two zero bits in front make 130 bits, a multiple of five.
	have := 2
	at := 0

	for _, b := range id {
		bits = bits<<8 | uint32(b)
		for have += 8; have >= 5; at++ {
			have -= 5
			out[at] = digits[bits>>have&31]
		}
	}
	return string(out[:])
}
