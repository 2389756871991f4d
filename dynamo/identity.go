package dynamo

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/zeroae/zae-limiter-go"
)

// identity is the ARN of the caller, as AWS knows it. It is asked for once, by
// the first change that no principal signs.
type identity struct {
	ask  sync.Once
	done chan struct{} // closed when arn is final
	arn  string        // "" if AWS did not say
}

// longestIdentity is how long a change waits for the caller's identity at most:
// a network may lead to the table and to nothing else.
const longestIdentity = time.Second

// author is who makes a change: the principal that was given, else the identity
// of the caller, else "". With an endpoint of its own, the table is not in an
// account of AWS, and its caller has no identity there.
func (s *store) author(ctx context.Context, ev *limiter.AuditEvent) string {
	if ev.Principal != "" || s.client.Options().BaseEndpoint != nil {
		return ev.Principal
	}
	id := &s.identity
	id.ask.Do(func() {
		id.done = make(chan struct{})
		if !s.detach(func() { s.identify(context.WithoutCancel(ctx)) }) {
			close(id.done)
		}
	})
	select {
	case <-id.done:
		return id.arn
	case <-ctx.Done():
		return ""
	}
}

// identify asks who the caller is. Everyone may ask that. A failure is final: the
// next change must not wait for it too.
func (s *store) identify(ctx context.Context) {
	defer close(s.identity.done)
	ctx, cancel := context.WithTimeout(ctx, longestIdentity)
	defer cancel()
	client := sts.NewFromConfig(s.config, func(o *sts.Options) { o.Retryer = aws.NopRetryer{} })
	out, err := client.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err == nil && strings.HasPrefix(deref(out.Arn), "arn:") {
		s.identity.arn = *out.Arn
	}
}
