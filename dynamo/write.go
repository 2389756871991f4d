package dynamo

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/wire"
	"github.com/zeroae/zae-limiter-go/internal/pause"
)

const (
	maxTries   = 8 // how often one call sends a request again
	maxUnknown = 2 // how often it sends a debit again that may have been executed
)

// retry calls send until it succeeds, until again reports false for the error of
// a try (the first is 0), or until maxTries retries have failed. It waits before
// each retry, and returns the error of ctx if that ends meanwhile.
func retry(ctx context.Context, again func(err error, try int) bool, send func() error) error {
	for try := 0; ; try++ {
		err := send()
		if err == nil || try >= maxTries || !again(err, try) {
			return err
		}

		if err := pause.For(ctx, backoff(try+1)); err != nil {
			return err
		}
	}
}

// resend returns the rule by which retry repeats a write: always if it was surely
// not executed and may succeed later, and within unknowns retries if it may have
// been executed.
func resend(unknowns int) func(err error, try int) bool {
	return func(err error, try int) bool {
		switch resultOf(err) {
		case notExecuted:
			return retryable(err)
		case unknown:
			return try < unknowns
		}
		return false
	}
}

// sendWrite sends a write by the rule of resend, and returns the stored item or
// the error of the last try. A debit may be executed twice, which refill heals; a
// give-back must not.
func sendWrite(ctx context.Context, unknowns int, send func() (item, error)) (stored item, err error) {
	_ = retry(ctx, resend(unknowns), func() error {
		stored, err = send()
		return err
	})
	return stored, err
}

// updateOnce sends an update without retries, and returns the item that it left.
func (s *store) updateOnce(ctx context.Context, in *dynamodb.UpdateItemInput) (item, error) {
	out, err := s.update(ctx, in)
	switch {
	case err != nil:
		return nil, err
	case len(out.Attributes) == 0 && in.ReturnValues == types.ReturnValueAllNew:
		return nil, errNoItem
	}
	return out.Attributes, nil
}

// update sends an update, over the wire if the configuration allows it.
func (s *store) update(ctx context.Context, in *dynamodb.UpdateItemInput) (*dynamodb.UpdateItemOutput, error) {
	if s.wire == nil {
		return s.once.UpdateItem(ctx, in)
	}

	if s.opts.CountCapacity {
		ask(in)
	}

	out, err := s.wire.UpdateItem(ctx, in)
	// Nothing has left the machine, so the SDK may send the request, or report
	// why it cannot.
	if errors.Is(err, wire.ErrUnsent) {
		return s.once.UpdateItem(ctx, in)
	}

	if s.opts.CountCapacity {
		capacityMeter{&s.used}.count(out, err)
	}
	return out, err
}

// errNoItem reports a response without the item that was asked for. The write may
// not have been executed.
var errNoItem = errors.New("the answer to a write has no item")

// transact writes all items or none. The client retries failures under one token,
// and transact retries conflicts. A refusal is a
// *types.TransactionCanceledException with a reason for each item.
func (s *store) transact(ctx context.Context, items ...types.TransactWriteItem) error {
	return retry(ctx, resend(0), func() error {
		_, err := s.api(ctx).TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items})
		return err
	})
}

// backoff returns the pause before a try: none before the first, then longer each
// time. It is random, so that processes that failed together do not try again
// together.
func backoff(try int) time.Duration {
	if try == 0 {
		return 0
	}
	longest := 10 * time.Millisecond << min(try, 6)
	return longest/4 + rand.N(longest)
}
