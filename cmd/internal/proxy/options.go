// Package proxy limits the calls to an API of language models. It is a reverse
// proxy with one fixed upstream: clients change their base URL, and the proxy
// charges what their calls cost.
package proxy

import (
	"cmp"
	"errors"
	"fmt"
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
	// Upstream is required. A path in it comes before the path of a request. If it
	// ends in a version, parts that the request repeats are sent once: /v1/models to
	// https://api.openai.com/v1 is /v1/models.
	Upstream *url.URL
	Identify Identifier  // maps a request to an entity; default: the hash of its API key
	Mapping  MappingFunc // the current mapping; default: none
	// Credentials is a header that replaces the client's credentials, such as
	// "Authorization" with a key of the upstream; default: the client's pass.
	Credentials Credentials
	// Account holds further headers that are sent with Credentials, such as
	// OpenAI-Project. With Credentials, the client's own are not sent.
	Account http.Header

	Limits llm.Limits    // see llm.Options
	Prices llm.PriceFunc // see llm.Options
	Step   int64         // see llm.Options
	// OtherResource is the resource of calls that are not about a model;
	// default "other".
	OtherResource string

	// Paths lists the calls that are forwarded beside calls of a model: a path, or
	// its beginning and "*", after a method and a space if only that method is;
	// default DefaultPaths.
	Paths []string

	MaxOutput    int64 // see llm.Options
	KeepRequests bool  // see llm.Options; the proxy writes no maximum into requests
	// MaximumField is the field that the proxy writes to bound the answers of chat
	// completions; default: max_completion_tokens if the upstream is OpenAI's or
	// Azure's, else max_tokens.
	MaximumField string
	// RefuseBackground refuses responses with background. By default, they are
	// charged what they reserve.
	RefuseBackground bool
	// FollowTimeout bounds the time for which the proxy goes on reading an answer
	// after its client has left, where money depends on it; default 1 minute. If it
	// is negative, the call ends and is charged what it reserved.
	FollowTimeout time.Duration

	// MaxBody bounds the body of a request about a model, as sent and
	// decompressed, and the compressed answers that are read; default 16 MiB.
	MaxBody int64
	// MaxRequests bounds the calls under way; default 1024. Probes do not count.
	MaxRequests int
	// ClientRequests bounds the calls of one entity under way; default a quarter of
	// MaxRequests.
	ClientRequests int
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

// DefaultPaths returns the default of Options.Paths: the list of models, and each
// of them.
func DefaultPaths() []string { return []string{"GET /v1/models", "GET /v1/models/*"} }

const (
	defaultOther           = "other"
	defaultMaxBody         = 16 << 20
	defaultMaxRequests     = 1024
	defaultNewEntities     = 60
	defaultUpstreamTimeout = 10 * time.Minute
	defaultFollowTimeout   = time.Minute
	// budgetBodies is the number of bodies of the largest size for which there
	// is memory.
	budgetBodies = 64
	leastMemory  = 64 << 20
)

func (o *Options) withDefaults() Options {
	out := *o
	out.OtherResource = cmp.Or(out.OtherResource, defaultOther)
	// An empty list is not the default: it forwards calls of models alone.
	if out.Paths == nil {
		out.Paths = DefaultPaths()
	}

	out.MaxBody = cmp.Or(out.MaxBody, defaultMaxBody)
	out.MaxRequests = cmp.Or(out.MaxRequests, defaultMaxRequests)
	out.ClientRequests = cmp.Or(out.ClientRequests, max(1, out.MaxRequests/4))
	out.NewEntities = cmp.Or(out.NewEntities, defaultNewEntities)
	out.UpstreamTimeout = cmp.Or(out.UpstreamTimeout, defaultUpstreamTimeout)
	out.FollowTimeout = cmp.Or(out.FollowTimeout, defaultFollowTimeout)
	out.MaximumField = cmp.Or(out.MaximumField, maximumField(out.Upstream))

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
		Proxy:              http.ProxyFromEnvironment,
		ForceAttemptHTTP2:  true,
		DisableCompression: true, // the client decides about encodings
		// All connections go to one host, for which the library would keep two.
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

	for _, pattern := range o.Paths {
		if err := CheckPath(pattern); err != nil {
			return &limiter.InvalidError{Field: "paths", Value: fmt.Sprintf("%.60s", pattern), Reason: err.Error()}
		}
	}

	if o.MaxBody < 0 || o.MaxRequests < 0 || o.ClientRequests < 0 || o.NewEntities < 0 || o.UpstreamTimeout < 0 {
		return &limiter.InvalidError{Field: "proxy options", Reason: "sizes, numbers and times must not be negative"}
	}
	return nil
}
