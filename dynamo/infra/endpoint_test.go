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
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// engineOptions returns options for DynamoDB Local, which does not serve
// CloudFormation, and the number of requests to CloudFormation.
func engineOptions(t *testing.T) (infra.Options, *atomic.Int64) {
	t.Helper()
	sent := new(atomic.Int64)
	cfg := fakeaws.Config(engine(t))
	cfg.HTTPClient = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
			sent.Add(1)
		}
		return fakeaws.Transport.RoundTrip(r)
	})}
	return infra.Options{Dynamo: dynamo.Options{AWS: cfg}, Version: "1.2.3", Zip: functionZip(t), Poll: 1}, sent
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// One response is enough to detect that there is no CloudFormation. The error has
// the command for the same endpoint.
func TestWithoutCloudFormation(t *testing.T) {
	t.Parallel()
	name, at := stackName(), " "+fakeaws.Region+" "+engine(t)+")"
	for op, c := range map[string]struct {
		run  func(infra.Options) error
		says string
	}{
		"deploy": {func(o infra.Options) error {
			_, err := infra.Deploy(t.Context(), name, &o)
			return err
		}, "dynamo.CreateTable(" + name + at},
		"open": {func(o infra.Options) error {
			_, err := infra.Open(t.Context(), name, &o)
			return err
		}, "dynamo.CreateTable(" + name + at},
		"upgrade": {func(o infra.Options) error {
			_, err := infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{Options: o})
			return err
		}, "dynamo.Migrate(" + name + at},
		"delete": {func(o infra.Options) error {
			_, err := infra.Delete(t.Context(), name, &infra.DeleteOptions{Options: o})
			return err
		}, "infra.DeleteTable(" + name + at},
		"list": {func(o infra.Options) error {
			_, err := infra.List(t.Context(), &o)
			return err
		}, "dynamo.CreateTable(NAME" + at},
	} {
		opts, sent := engineOptions(t)
		err := c.run(opts)
		if err == nil || !strings.HasPrefix(
			err.Error(), "there is no CloudFormation at "+engine(t)+", ",
		) || !strings.Contains(dynamotest.Said(err), c.says) {
			t.Errorf("%s: %v, want %s", op, err, c.says)
		}
		if n := sent.Load(); n != 1 {
			t.Errorf("%s: %d requests to CloudFormation, want 1", op, n)
		}
	}
}

// Deploy does not suggest to create a table that exists.
func TestDeployOverTableWithoutCloudFormation(t *testing.T) {
	t.Parallel()
	opts, _ := engineOptions(t)
	name := stackName()
	must(t, dynamo.CreateTable(t.Context(), name, &opts.Dynamo))
	_, err := infra.Deploy(t.Context(), name, &opts)
	want := "table " + name + " exists there and limits without one: infra.Inspect shows it, and dynamo.Connect " +
		"opens it(" + name + " " + fakeaws.Region + " " + engine(t) + ")"
	if err == nil || !strings.Contains(dynamotest.Said(err), want) || strings.Contains(err.Error(), "CreateTable") {
		t.Errorf("%v, want %s", err, want)
	}
}

// The status of a table without a stack says that there is no CloudFormation. It
// does not retry requests for functions.
func TestInspectWithoutCloudFormation(t *testing.T) {
	t.Parallel()
	opts, sent := engineOptions(t)
	name := stackName()
	st, err := infra.Inspect(t.Context(), name, &opts)
	must(t, err)
	if st.Verdict != infra.Unreachable || !strings.Contains(
		dynamotest.SaidBy(strings.Join(st.Problems, ";"), st.Remedies),
		"dynamo.CreateTable("+name+" "+fakeaws.Region+" "+engine(t)+") creates it",
	) {
		t.Errorf("%s %q", st.Verdict, st.Problems)
	}
	must(t, dynamo.CreateTable(t.Context(), name, &opts.Dynamo))
	st, err = infra.Inspect(t.Context(), name, &opts)
	must(t, err)
	if st.Verdict != infra.Degraded || len(st.Problems) != 1 || !strings.HasSuffix(
		st.Problems[0], "there is no CloudFormation at "+engine(t),
	) {
		t.Errorf("%s %q", st.Verdict, st.Problems)
	}
	if st.Stack.Error != "" || st.Aggregator.Error != "" || st.Provisioner.Error != "" || st.EventSource.Error != "" {
		t.Errorf("%+v", st)
	}
	if n := sent.Load(); n != 2 {
		t.Errorf("%d requests to CloudFormation, want 2", n)
	}
}

// Faults of CloudFormation itself are retried.
func TestFaultsOfCloudFormationAreRetried(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{"Throttling": 400, "InternalFailure": 500, "ServiceUnavailable": 503} {
		c := newCloud(t)
		c.FailFirst(3, "DescribeStacks", status, code, "later")
		opts := c.options()
		_, err := infra.List(t.Context(), &opts)
		must(t, err)
		if got := c.TakeCalls("DescribeStacks"); len(got) != 4 {
			t.Errorf("%s: %d calls, want 4", code, len(got))
		}
	}
}

const unresponsiveURL = "http://mute.test:8000"

// unresponsiveOptions returns options for an endpoint that accepts connections and
// reads requests, but never responds. Endpoint "" is AWS.
func unresponsiveOptions(t *testing.T, endpoint string, asked *atomic.Int64) infra.Options {
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
	cfg := fakeaws.Config(endpoint)
	cfg.HTTPClient, cfg.Retryer = &http.Client{Transport: wire}, nil
	if endpoint == "" {
		cfg.BaseEndpoint = nil
	}
	return infra.Options{
		Dynamo: dynamo.Options{AWS: cfg, Timeout: 3 * time.Second}, Version: "1.2.3", Zip: functionZip(t),
	}
}

// A call to an unresponsive endpoint fails after eight seconds, with the command that
// needs no CloudFormation.
func TestUnresponsiveEndpoint(t *testing.T) {
	const name = "my-app"
	at := " " + fakeaws.Region + " " + unresponsiveURL + ")"
	for op, c := range map[string]struct {
		run  func(context.Context, *infra.Options) error
		says string
	}{
		"deploy": {func(ctx context.Context, o *infra.Options) error {
			_, err := infra.Deploy(ctx, name, o)
			return err
		}, "dynamo.CreateTable(" + name + at + " makes a table without a stack"},
		"list": {func(ctx context.Context, o *infra.Options) error {
			_, err := infra.List(ctx, o)
			return err
		}, "dynamo.CreateTable(NAME" + at + " makes a table without a stack"},
		"delete": {func(ctx context.Context, o *infra.Options) error {
			_, err := infra.Delete(ctx, name, &infra.DeleteOptions{Options: *o})
			return err
		}, "infra.DeleteTable(" + name + at + " deletes a table without a stack"},
	} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, began := new(atomic.Int64), time.Now()
				opts := unresponsiveOptions(t, unresponsiveURL, asked)
				err := c.run(t.Context(), &opts)
				if err == nil || !strings.Contains(err.Error(),
					unresponsiveURL+" accepted the connection but did not answer within 8s; check that "+
						"CloudFormation is there") ||
					!strings.Contains(dynamotest.Said(err), c.says) {
					t.Errorf("%v, want %s", err, c.says)
				}
				if took := time.Since(began); took != 8*time.Second || asked.Load() != 1 {
					t.Errorf("%v and %d connections, want 8s and 1", took, asked.Load())
				}
			})
		})
	}
}

// Inspect waits for all services of an unresponsive endpoint at the same time.
func TestInspectUnresponsiveEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		opts := unresponsiveOptions(t, unresponsiveURL, new(atomic.Int64))
		st, err := infra.Inspect(t.Context(), "my-app", &opts)
		must(t, err)
		if st.Verdict != infra.Unreachable || !strings.Contains(
			st.Stack.Error, "accepted the connection but did not answer",
		) {
			t.Errorf("%s %q %q", st.Verdict, st.Problems, st.Stack.Error)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v, want at most 10s", took)
		}
	})
}

// For AWS itself, only the timeout of the transport applies.
func TestUnresponsiveAWS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		opts := unresponsiveOptions(t, "", new(atomic.Int64))
		opts.Dynamo.AWS.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
		_, err := infra.List(t.Context(), &opts)
		if took := time.Since(began); err == nil || took != 30*time.Second {
			t.Errorf("%v after %v, want an error after 30s", err, took)
		}
	})
}
