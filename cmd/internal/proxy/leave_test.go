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
	"github.com/zeroae/zae-limiter-go/repotest"
)

// A client that leaves during the charge pays nothing, and its call is not sent.
func TestClientThatLeavesDuringTheChargePaysNothing(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	var conn net.Conn
	clients, left := make(chan context.Context, 1), make(chan struct{})
	leave := func() {
		_ = conn.Close()
		<-(<-clients).Done()
		close(left)
	}
	lim, err := limiter.New(repotest.NewLeaving(memory.New(nil), leave), &limiter.Options{Now: func() time.Time {
		return noon
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRigOn(t, lim, answerJSON(plainChat), func(o *Options) {
		o.Identify = func(r *http.Request) (string, error) {
			clients <- r.Context()
			return HashKey(aliceKey), nil
		}
	})
	conn, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", r.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", chatPath, auth,
		len(plainCall), plainCall)
	if err != nil {
		t.Fatal(err)
	}
	<-left
	r.proxy.calls.Wait()
	r.wantUsed("m", 0, 0)
	if r.calls() != 0 {
		t.Error("the call reached the upstream")
	}
	r.wantNothingLeft(goroutines)
}
