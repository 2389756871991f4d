// Package proxy limits the calls to an API of language models. It is a reverse
// proxy with one fixed upstream: clients change their base URL, and the proxy
// charges what their calls cost.
package proxy

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/llm"
)

// Options configures New. The zero value of a field is its default.
type Options struct {
	Upstream *url.URL    // required; a path in it comes before the path of a request
	Identify Identifier  // maps a request to an entity; default: the hash of its API key
	Mapping  MappingFunc // the current mapping; default: none
	// Credentials is a header that replaces the client's credentials, such as
	// "Authorization" with a key of the upstream; default: the client's pass.
	Credentials Credentials

	Limits        llm.Limits    // see llm.Options
	Prices        llm.PriceFunc // see llm.Options
	Step          int64         // see llm.Options
	OtherResource string        // the resource of calls that are not about a model; default "other"

	// MaxBody bounds the body of a request about a model, as sent and
	// decompressed, and the compressed answers that are read; default 16 MiB.
	MaxBody int64
	// MaxRequests bounds the calls under way; default 1024. Each entity may have
	// half of them. Probes do not count.
	MaxRequests int
	// NewEntities bounds how many entities a minute may appear for the first
	// time, where every API key is an entity; default 60.
	NewEntities int
	// UpstreamTimeout bounds the time until the header of an answer; default 10
	// minutes.
	UpstreamTimeout time.Duration

	Transport http.RoundTripper // to the upstream; default: a transport of its own
	Log       *slog.Logger      // the access log; default: none
	OnError   func(error)       // receives outages and failed settlements; default: dropped
	Fields    httplimit.Fields  // describes limits to clients
	Now       func() time.Time  // default time.Now
}

// Credentials is a header that the proxy sends upstream.
type Credentials struct{ Name, Value string }

const (
	defaultOther           = "other"
	defaultMaxBody         = 16 << 20
	defaultMaxRequests     = 1024
	defaultNewEntities     = 60
	defaultUpstreamTimeout = 10 * time.Minute
	budgetBodies           = 64 // bodies of the largest size that may be in memory at a time
	leastMemory            = 64 << 20
)

func (o *Options) withDefaults() Options {
	out := *o
	out.OtherResource = cmp.Or(out.OtherResource, defaultOther)
	out.MaxBody = cmp.Or(out.MaxBody, defaultMaxBody)
	out.MaxRequests = cmp.Or(out.MaxRequests, defaultMaxRequests)
	out.NewEntities = cmp.Or(out.NewEntities, defaultNewEntities)
	out.UpstreamTimeout = cmp.Or(out.UpstreamTimeout, defaultUpstreamTimeout)
	if out.Mapping == nil {
		out.Mapping = func() *Mapping { return nil }
	}
	if out.Log == nil {
		out.Log = slog.New(slog.DiscardHandler)
	}
	if out.OnError == nil {
		out.OnError = func(error) {}
	}
	if out.Now == nil {
		out.Now = time.Now
	}
	if out.Transport == nil {
		out.Transport = newTransport(out.UpstreamTimeout)
	}
	return out
}

// CheckUpstream reports why a URL cannot be an upstream.
func CheckUpstream(u *url.URL) error {
	switch {
	case u == nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must be a URL with a host, such as https://api.openai.com")
	case u.User != nil:
		return errors.New("must not contain credentials; clients send their own")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("must not have a query or a fragment")
	}
	return nil
}

// newTransport returns a transport that changes nothing about an answer.
func newTransport(timeout time.Duration) *http.Transport {
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // the client decides about encodings
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    1024,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  timeout,
		MaxResponseHeaderBytes: 1 << 20,
	}
	return t
}

// validate checks the options that have no default.
func (o *Options) validate(lim *limiter.RateLimiter) error {
	if lim == nil {
		return errors.New("proxy: needs a limiter")
	}
	if err := CheckUpstream(o.Upstream); err != nil {
		return &limiter.InvalidError{Field: "upstream", Reason: err.Error()}
	}
	if o.MaxBody < 0 || o.MaxRequests < 0 || o.NewEntities < 0 || o.UpstreamTimeout < 0 {
		return &limiter.InvalidError{Field: "proxy options", Reason: "sizes, numbers and times must not be negative"}
	}
	return nil
}
