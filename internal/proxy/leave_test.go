package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// cutStore charges, waits, and then loses the outcome if the context has ended.
type cutStore struct {
	limiter.Repository
	charged, proceed chan struct{}
}

func (s cutStore) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	out, err := s.Repository.Consume(context.WithoutCancel(ctx), now, charge)
	s.charged <- struct{}{}
	<-s.proceed
	if ctx.Err() != nil {
		return limiter.Outcome{}, ctx.Err()
	}
	return out, err
}

// A client that leaves during the charge pays nothing, and its call is not sent.
func TestClientThatLeavesDuringTheChargePaysNothing(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	store := cutStore{memory.New(nil), make(chan struct{}), make(chan struct{})}
	lim, err := limiter.New(store, &limiter.Options{Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	clients := make(chan context.Context, 1)
	r := newRigOn(t, lim, answerJSON(plainChat), func(o *Options) {
		o.Identify = func(r *http.Request) (string, error) {
			clients <- r.Context()
			return HashKey(aliceKey), nil
		}
	})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", chatPath, auth, len(plainCall), plainCall)
	if err != nil {
		t.Fatal(err)
	}
	<-store.charged
	_ = conn.Close()
	<-(<-clients).Done()
	close(store.proceed)
	r.proxy.calls.Wait()
	r.wantUsed("m", 0, 0)
	if r.calls() != 0 {
		t.Error("the call reached the upstream")
	}
	r.wantNothingLeft(goroutines)
}
