package infra_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/infra"
)

const muteEndpoint = "http://mute.test:8000"

// muteOptions reach an endpoint that takes every connection and reads what comes,
// but never answers. Endpoint "" is AWS.
func muteOptions(t *testing.T, endpoint string, asked *atomic.Int64) infra.Options {
	t.Helper()
	wire := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		asked.Add(1)
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		t.Cleanup(func() { _ = server.Close() })
		return client, nil
	}, ResponseHeaderTimeout: 30 * time.Second}
	wire.DialTLSContext = wire.DialContext
	t.Cleanup(wire.CloseIdleConnections)
	cfg := config(endpoint)
	cfg.HTTPClient, cfg.Retryer = &http.Client{Transport: wire}, nil
	if endpoint == "" {
		cfg.BaseEndpoint = nil
	}
	return infra.Options{Dynamo: dynamo.Options{AWS: cfg, Timeout: 3 * time.Second}, Version: "1.2.3", Zip: functionZip(t)}
}

// A custom endpoint that takes connections and never answers is given up after
// eight seconds, with the command that needs no CloudFormation.
func TestMuteEndpoint(t *testing.T) {
	const name = "my-app"
	at := " --region " + region + " --endpoint-url " + muteEndpoint
	for op, c := range map[string]struct {
		run  func(context.Context, *infra.Options) error
		says string
	}{
		"deploy": {func(ctx context.Context, o *infra.Options) error {
			_, err := infra.Deploy(ctx, name, o)
			return err
		}, "`zae-limiter table create " + name + at + "` makes a table without a stack"},
		"list": {func(ctx context.Context, o *infra.Options) error {
			_, err := infra.List(ctx, o)
			return err
		}, "`zae-limiter table create NAME" + at + "` makes a table without a stack"},
		"delete": {func(ctx context.Context, o *infra.Options) error {
			_, err := infra.Delete(ctx, name, &infra.DeleteOptions{Options: *o})
			return err
		}, "`zae-limiter table delete " + name + at + "` deletes a table without a stack"},
	} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, began := new(atomic.Int64), time.Now()
				opts := muteOptions(t, muteEndpoint, asked)
				err := c.run(t.Context(), &opts)
				if err == nil || !strings.Contains(err.Error(), muteEndpoint+" accepted the connection but did not answer within 8s; check that CloudFormation is there") ||
					!strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %s", err, c.says)
				}
				if took := time.Since(began); took != 8*time.Second || asked.Load() != 1 {
					t.Errorf("%v and %d connections, want 8s and 1", took, asked.Load())
				}
			})
		})
	}
}

// The status of a stack at a mute endpoint asks several services, and waits for
// all of them at once.
func TestInspectMuteEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		opts := muteOptions(t, muteEndpoint, new(atomic.Int64))
		st, err := infra.Inspect(t.Context(), "my-app", &opts)
		must(t, err)
		if st.Verdict != infra.Unreachable || !strings.Contains(st.Stack.Error, "accepted the connection but did not answer") {
			t.Errorf("%s %q %q", st.Verdict, st.Problems, st.Stack.Error)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v, want at most 10s", took)
		}
	})
}

// AWS itself may take as long as the transport allows.
func TestMuteAWS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		opts := muteOptions(t, "", new(atomic.Int64))
		opts.Dynamo.AWS.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
		_, err := infra.List(t.Context(), &opts)
		if took := time.Since(began); err == nil || took != 30*time.Second {
			t.Errorf("%v after %v, want an error after 30s", err, took)
		}
	})
}
