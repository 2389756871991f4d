package loadtest

import "github.com/zeroae/zae-limiter-go"

// Client calls a limiter and reports each call as an Event.
type Client struct {
	limiter *limiter.RateLimiter
	record  func(Event)
}
