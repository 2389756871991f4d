package server

import (
	"net/netip"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Bounds of the streams of Watch, for streams with a token and again for streams
// without one.
const (
	maxWatchers  = 64
	hostWatchers = 4 // of one host without a token
)

// watchers gives places to streams that watch the health. A client without a token
// cannot keep others out: its host has few places, and where all are taken, a new
// stream replaces one of the host that has most.
type watchers struct {
	mu        sync.Mutex
	strangers []*watcher // the oldest first
	known     int
}

// watcher is the place of a stream.
type watcher struct {
	host     string        // "" for a stream with a token
	replaced chan struct{} // closed when another stream took the place
}

// enter returns a place for a stream from an address, known if it has a token. The
// caller gives it back with leave.
func (w *watchers) enter(addr string, known bool) (*watcher, error) {
	place := &watcher{replaced: make(chan struct{})}

	w.mu.Lock()
	defer w.mu.Unlock()

	if known {
		if w.known == maxWatchers {
			return nil, errWatchers
		}
		w.known++
		return place, nil
	}

	place.host = hostOf(addr)
	taken := map[string]int{}
	for _, other := range w.strangers {
		taken[other.host]++
	}

	if taken[place.host] == hostWatchers {
		return nil, errWatchers
	}

	if len(w.strangers) == maxWatchers {
		// The first of equal ones is the oldest.
		largest := slices.MaxFunc(w.strangers, func(a, b *watcher) int { return taken[a.host] - taken[b.host] })
		close(largest.replaced)
		w.remove(largest)
	}

	w.strangers = append(w.strangers, place)
	return place, nil
}

// leave gives a place back.
func (w *watchers) leave(place *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if place.host == "" {
		w.known--
		return
	}
	w.remove(place)
}

func (w *watchers) remove(place *watcher) {
	if i := slices.Index(w.strangers, place); i >= 0 {
		w.strangers = slices.Delete(w.strangers, i, i+1)
	}
}

var (
	errWatchers = status.Error(codes.ResourceExhausted,
		"too many streams watch the health; call Check instead, or send a token")
	errReplaced = status.Error(codes.Unavailable,
		"another stream took the place of this one; call Check instead, or send a token")
)

// hostOf returns the host of an address. For IPv6 that is its network, since one
// host may use all addresses of a network.
func hostOf(addr string) string {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return "other"
	}

	ip := at.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}

	// An address of 128 bits always has such a prefix.
	network, _ := ip.Prefix(64)
	return network.String()
}
