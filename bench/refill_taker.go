package main

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// taker acquires from a bucket that it shares with others. It knows of them only
// what the table says, as a process of its own would.
type taker interface {
	take(ctx context.Context, now time.Time) (admitted bool, err error)
	close() error
}

// tripsKey finds, in the context of a call, how many requests it has sent.
type tripsKey struct{}

// tripCounter counts requests for the calls that they are part of.
type tripCounter struct{ aws.HTTPClient }

func (c tripCounter) Do(req *http.Request) (*http.Response, error) {
	if sent, ok := req.Context().Value(tripsKey{}).(*atomic.Int64); ok {
		sent.Add(1)
	}
	return c.HTTPClient.Do(req)
}

// countedTake is a take and how many requests it sent.
func countedTake(ctx context.Context, t taker, now time.Time) (admitted bool, trips int64, err error) {
	var sent atomic.Int64
	admitted, err = t.take(context.WithValue(ctx, tripsKey{}, &sent), now)
	return admitted, sent.Load(), err
}

// service is a taker that uses our store. Limits never change here, so they are
// read once: what is counted are requests for the bucket.
type service struct {
	repo   *dynamo.Repository
	entity string
}

// newService knows the bucket as it is at now.
func newService(ctx context.Context, endpoint, entity string, now time.Time, exact bool) (*service, error) {
	repo, err := dynamo.Connect(ctx, refillTable, countedOptions(endpoint, exact))
	if err != nil {
		return nil, err
	}
	s := &service{repo, entity}
	_, err = s.consume(ctx, now, limiter.Tokens("rpm", 0))
	return s, err
}

func countedOptions(endpoint string, exact bool) *dynamo.Options {
	cfg := awsConfig()
	cfg.HTTPClient = tripCounter{tunedClient()}
	return &dynamo.Options{Endpoint: endpoint, AWS: &cfg, Exact: exact, CacheTTL: 24 * time.Hour}
}

func (s *service) take(ctx context.Context, now time.Time) (bool, error) {
	return s.consume(ctx, now, limiter.Tokens("rpm", 1).And("tpm", tpmEach))
}

func (s *service) consume(ctx context.Context, now time.Time, amounts limiter.Amounts) (bool, error) {
	out, err := s.repo.Consume(ctx, now, limiter.Charge{Entity: s.entity, Resource: benchResource, Amounts: amounts})
	return out.Admitted, err
}

func (s *service) close() error { return s.repo.Close() }
