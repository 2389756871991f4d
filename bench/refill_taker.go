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

// taker acquires from a shared bucket. It knows about other takers only what
// the table shows, like a separate process.
type taker interface {
	take(ctx context.Context, now time.Time) (admitted bool, err error)
	close() error
}

// tripsKey is the context key of a call's request counter.
type tripsKey struct{}

// tripCounter counts the requests of each call.
type tripCounter struct{ aws.HTTPClient }

func (c tripCounter) Do(req *http.Request) (*http.Response, error) {
	if sent, ok := req.Context().Value(tripsKey{}).(*atomic.Int64); ok {
		sent.Add(1)
	}
	return c.HTTPClient.Do(req)
}

// countedTake makes a take and returns its number of requests.
func countedTake(ctx context.Context, t taker, now time.Time) (admitted bool, trips int64, err error) {
	var sent atomic.Int64
	admitted, err = t.take(context.WithValue(ctx, tripsKey{}, &sent), now)
	return admitted, sent.Load(), err
}

// service is a taker that uses our store. It reads the limits once, since they
// never change here: only requests for the bucket are counted.
type service struct {
	repo   *dynamo.Repository
	entity string
}

// newService returns a service that has cached the bucket at now.
func newService(ctx context.Context, endpoint, entity string, now time.Time, exact bool) (*service, error) {
	repo, err := dynamo.Connect(ctx, refillTable, countedOptions(endpoint, exact))
	if err != nil {
		return nil, err
	}

	s := &service{repo, entity}
	// A charge of 0 fills the cache and takes nothing.
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
