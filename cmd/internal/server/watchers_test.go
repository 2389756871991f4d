package server

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	health1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A client without a token holds few streams, and others can watch and check.
func TestGRPCHealthWatchersAreBounded(t *testing.T) {
	tokens, secret := openTokens(t, TokenEntry{Role: RoleRead, Namespace: "default"})
	r := newMemoryRig(t, Options{Tokens: tokens})
	conn, _ := serveGRPC(t, r, nil)
	client := health1.NewHealthClient(conn)
	watch := func(token string) codes.Code {
		ctx := t.Context()
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		}
		stream, err := client.Watch(ctx, &health1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		return status.Code(err)
	}
	for i := range 100 {
		if got, want := watch(""), map[bool]codes.Code{
			true: codes.OK, false: codes.ResourceExhausted,
		}[i < hostWatchers]; got != want {
			t.Fatalf("stream %d: %v, want %v", i, got, want)
		}
	}
	if got := watch("unknown"); got != codes.ResourceExhausted {
		t.Errorf("with an unknown token: %v", got)
	}
	for i := range maxWatchers + 1 {
		if got, want := watch(secret[0]), map[bool]codes.Code{
			true: codes.OK, false: codes.ResourceExhausted,
		}[i < maxWatchers]; got != want {
			t.Fatalf("stream %d with a token: %v, want %v", i, got, want)
		}
	}
	if _, err := client.Check(t.Context(), &health1.HealthCheckRequest{}); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// Many hosts cannot hold all places: a new stream replaces one of the host that has
// most, and then the oldest.
func TestWatchersReplaceTheLargest(t *testing.T) {
	w := &watchers{}
	enter := func(addr string) *watcher {
		t.Helper()
		place, err := w.enter(addr, false)
		if err != nil {
			t.Fatalf("%s: %v", addr, err)
		}
		return place
	}
	first := enter("192.0.2.1:1")
	var large []*watcher
	for i := range maxWatchers / hostWatchers {
		for port := range hostWatchers {
			if len(w.strangers) < maxWatchers {
				large = append(large, enter(fmt.Sprintf("198.51.100.%d:%d", i, port+1)))
			}
		}
	}
	if _, err := w.enter("198.51.100.0:99", false); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a fifth stream of a host: %v", err)
	}
	known, err := w.enter("198.51.100.0:100", true)
	if err != nil {
		t.Errorf("with a token: %v", err)
	}
	latest := enter("203.0.113.9:1")
	for i, place := range append([]*watcher{first, latest, known}, large...) {
		select {
		case <-place.replaced:
			if place != large[0] {
				t.Errorf("place %d was replaced", i)
			}
		default:
			if place == large[0] {
				t.Error("the oldest stream of a large host stays")
			}
		}
	}

	w.leave(known)
	for _, place := range append([]*watcher{first, latest}, large...) {
		w.leave(place)
	}
	if len(w.strangers) != 0 || w.known != 0 {
		t.Errorf("%d and %d places are taken at the end", len(w.strangers), w.known)
	}
}

func TestHostOf(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:50": "192.0.2.1", "[::ffff:192.0.2.1]:50": "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:50": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:50":         "fe80::/64", "@": "other", "bufconn": "other",
	} {
		if got := hostOf(addr); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}
