package lambda

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// loadTarget is the table that a load test uses.
type loadTarget struct {
	table, region string
	connections   string // number of connections that are kept; 1000 if empty
}

// openTarget connects to the table of a load test, with a pool that is large enough
// for all users. The purge of a test's namespace does not wait for other callers,
// since there are none.
func openTarget(ctx context.Context, t loadTarget) (limiter.Repository, error) {
	pool, err := strconv.Atoi(cmp.Or(t.connections, "1000"))
	if err != nil || pool < 1 {
		return nil, fmt.Errorf("BOTO3_MAX_POOL %q: must be a whole number, 1 or more", t.connections)
	}

	client := awshttp.NewBuildableClient().WithDialerOptions(func(d *net.Dialer) {
		d.Timeout = time.Second
	}).WithTransportOptions(func(tr *http.Transport) {
		tr.MaxIdleConns, tr.MaxIdleConnsPerHost = pool, pool
		tr.ResponseHeaderTimeout = tableTimeout
	})

	region := cmp.Or(t.region, os.Getenv("AWS_REGION"), "us-east-1")
	cfg, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithHTTPClient(client), awsconfig.WithRegion(region))
	if err != nil {
		return nil, err
	}

	repo, err := dynamo.Connect(ctx, t.table, &dynamo.Options{
		AWS: &cfg, Namespace: "_", Timeout: tableTimeout, PurgeWait: -1,
	})
	if err != nil {
		return nil, err
	}
	return repo, nil
}
