package infra

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// client calls a service without its package in the SDK. Such a package takes
// seconds to compile, that for EC2 a minute, and this one needs a few operations. A
// client encodes and decodes what is needed, and leaves retries, errors and headers
// to the middleware that the clients of the SDK consist of.
type client struct {
	service
	cfg       aws.Config
	retryer   aws.Retryer
	base      *string // custom endpoint, or nil
	endpoints cloudformation.EndpointResolverOptions
	options   []func(*middleware.Stack) error
	skew      atomic.Int64 // by which the clock of the service is ahead, in ns
}

// service identifies a service.
type service struct {
	id      string // in errors, and in variables such as AWS_ENDPOINT_URL_ECS
	name    string // in signatures and host names
	version string // of the protocol for JSON, or of the API for forms
	target  string // the prefix of operations in JSON
}

// The services that have a client.
var (
	serviceCloudWatch = service{"CloudWatch", "monitoring", "2010-08-01", ""}
	serviceEC2        = service{"EC2", "ec2", "2016-11-15", ""}
	serviceECR        = service{"ECR", "ecr", "1.1", "AmazonEC2ContainerRegistry_V20150921"}
	serviceECS        = service{"ECS", "ecs", "1.1", "AmazonEC2ContainerServiceV20141113"}
	serviceLambda     = service{"Lambda", "lambda", "", ""}
	serviceSQS        = service{"SQS", "sqs", "1.0", "AmazonSQS"}
	serviceSSM        = service{"SSM", "ssm", "1.1", "AmazonSSM"}
)

// newClient returns a client of a service with the settings of the session.
func (s *session) newClient(ctx context.Context, of service, cfg aws.Config) *client {
	c := &client{service: of, cfg: cfg, retryer: newConfiguredRetryer(cfg), base: baseEndpoint(ctx, of.id, cfg)}
	c.endpoints = s.stacks.Options().EndpointOptions
	c.options = s.limitFirstResponse(slices.Clone(cfg.APIOptions), c.base)
	if cfg.HTTPClient == nil {
		c.cfg.HTTPClient = awshttp.NewBuildableClient()
	}
	return c
}

// newConfiguredRetryer returns the retryer that the SDK would choose.
func newConfiguredRetryer(cfg aws.Config) (r aws.Retryer) {
	switch {
	case cfg.Retryer != nil:
		r = cfg.Retryer()
	case cfg.RetryMode == aws.RetryModeAdaptive:
		r = retry.NewAdaptiveMode()
	default:
		r = retry.NewStandard()
	}

	if cfg.RetryMaxAttempts != 0 {
		r = retry.AddWithMaxAttempts(r, cfg.RetryMaxAttempts)
	}
	return r
}

// baseEndpoint returns the custom endpoint of a service, or nil. The environment and
// the profile can name one for each service.
func baseEndpoint(ctx context.Context, id string, cfg aws.Config) *string {
	// A variable wins over the profile, so the one for all services wins over the
	// profile's endpoint of this service.
	_, all := os.LookupEnv("AWS_ENDPOINT_URL")
	_, own := os.LookupEnv("AWS_ENDPOINT_URL_" + strings.ToUpper(id))
	if all && !own {
		return cfg.BaseEndpoint
	}

	for _, source := range cfg.ConfigSources {
		if s, ok := source.(interface {
			GetIgnoreConfiguredEndpoints(context.Context) (bool, bool, error)
		}); ok {
			if ignored, found, err := s.GetIgnoreConfiguredEndpoints(ctx); ignored && found && err == nil {
				return cfg.BaseEndpoint
			}
		}
	}

	for _, source := range cfg.ConfigSources {
		if s, ok := source.(interface {
			GetServiceBaseEndpoint(context.Context, string) (string, bool, error)
		}); ok {
			if endpoint, found, err := s.GetServiceBaseEndpoint(ctx, id); found && err == nil {
				return &endpoint
			}
		}
	}
	return cfg.BaseEndpoint
}

// endpoint returns the URL of the service.
func (c *client) endpoint(ctx context.Context, fips, dualStack bool) (url.URL, error) {
	// The resolver of CloudFormation knows the domain of each partition, and which
	// combinations of settings there are.
	found, err := cloudformation.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx,
		cloudformation.EndpointParameters{
			Region: &c.cfg.Region, Endpoint: c.base, UseFIPS: &fips, UseDualStack: &dualStack,
		})
	if err != nil {
		return url.URL{}, fmt.Errorf("failed to resolve service endpoint, %w", err)
	}

	at := found.URI
	if c.base != nil {
		return at, nil
	}

	host, domain, _ := strings.Cut(at.Host, ".")
	host = strings.Replace(host, "cloudformation", c.name, 1)

	switch c.id {
	case serviceECR.id, serviceECS.id, serviceLambda.id:
		// In GovCloud, the ordinary hosts of CloudFormation and most services
		// conform to FIPS. These three have hosts of their own for that.
		if fips && !strings.HasSuffix(host, "-fips") {
			host += "-fips"
		}
	}

	// Hosts of ECR without this prefix have IPv6.
	if c.id == serviceECR.id && !dualStack {
		host = "api." + host
	}

	at.Host = host + "." + domain
	return at, nil
}

// message is the request of a call, and how to read the response.
type message struct {
	method string
	path   string // escaped
	query  url.Values
	header map[string]string
	body   []byte
	// read reads a response of success, and failed returns the error in any other.
	read, failed func(http.Header, []byte) error
}

// call sends a request in JSON, and decodes the response into out.
func (c *client) call(ctx context.Context, op string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.send(ctx, op, &message{
		method: http.MethodPost, path: "/", body: body,
		header: map[string]string{
			"Content-Type": "application/x-amz-json-" + c.version, "X-Amz-Target": c.target + "." + op,
		},
		read: decodeJSON(out), failed: jsonError,
	})
}

// get sends a request without a body, and decodes the response from JSON into out.
func (c *client) get(ctx context.Context, op, path string, query url.Values, out any) error {
	return c.send(ctx, op, &message{
		method: http.MethodGet, path: path, query: query, read: decodeJSON(out), failed: jsonError,
	})
}

// submit sends a request as a form, and decodes the response from XML into out.
func (c *client) submit(ctx context.Context, op string, form url.Values, out any) error {
	form.Set("Action", op)
	form.Set("Version", c.version)
	return c.send(ctx, op, &message{
		method: http.MethodPost, path: "/", body: []byte(form.Encode()),
		header: map[string]string{"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"},
		read:   func(_ http.Header, content []byte) error { return xml.Unmarshal(content, out) },
		failed: func(_ http.Header, content []byte) error { return c.xmlError(content) },
	})
}

// decodeJSON returns a function that decodes a response into out, unless that is nil.
func decodeJSON(out any) func(http.Header, []byte) error {
	return func(_ http.Header, content []byte) error {
		if out == nil {
			return nil
		}
		return json.Unmarshal(content, out)
	}
}

// jsonError returns the error in a response of a service that speaks JSON.
func jsonError(header http.Header, content []byte) error {
	var found struct {
		Type    string `json:"__type"`
		Code    string
		Message string
	}
	// A response without a body has its code in the header.
	if err := json.Unmarshal(content, &found); err != nil && len(content) > 0 {
		return fmt.Errorf("failed to decode response body, %w", err)
	}

	const unknown = "UnknownError"
	code := cmp.Or(header.Get("X-Amzn-ErrorType"), found.Type, found.Code, unknown)
	// A namespace may precede the code, and a URL may follow it.
	code, _, _ = strings.Cut(code, ":")
	code = code[strings.LastIndex(code, "#")+1:]

	return &smithy.GenericAPIError{Code: code, Message: cmp.Or(found.Message, unknown)}
}

// xmlError returns the error in a response in XML. EC2 has another form than other
// services.
func (c *client) xmlError(content []byte) error {
	type failure struct{ Code, Message string }
	var found struct {
		Usual failure `xml:"Error"`
		EC2   failure `xml:"Errors>Error"`
	}
	if err := xml.Unmarshal(content, &found); err != nil {
		return fmt.Errorf("the response is not from %s: %w", c.id, err)
	}
	one := cmp.Or(found.Usual, found.EC2)
	return &smithy.GenericAPIError{Code: one.Code, Message: one.Message}
}

// send sends a message, and retries it as the retryer says.
func (c *client) send(ctx context.Context, op string, m *message) error {
	// Middleware finds the names in the context.
	ctx = awsmiddleware.SetServiceID(middleware.ClearStackValues(ctx), c.id)
	ctx = awsmiddleware.SetRegion(awsmiddleware.SetOperationName(ctx, op), c.cfg.Region)

	stack := middleware.NewStack(op, smithyhttp.NewStackRequest)
	err := c.assemble(stack, m)
	if err == nil {
		sender := smithyhttp.NewClientHandlerWithOptions(c.cfg.HTTPClient)
		_, _, err = middleware.DecorateHandler(sender, stack).Handle(ctx, m)
	}

	if err != nil {
		// The type carries the operation, which the advice about missing
		// permissions names.
		return &smithy.OperationError{ServiceID: c.id, OperationName: op, Err: err}
	}
	return nil
}

// assemble adds the steps of a call to a stack. They have the order and the names
// that the SDK uses, since the caller's own middleware may refer to them.
func (c *client) assemble(stack *middleware.Stack, m *message) error {
	agent := awsmiddleware.NewRequestUserAgent()
	agent.AddSDKAgentKey(awsmiddleware.APIMetadata, strings.ToLower(c.id))
	if c.cfg.AppID != "" {
		agent.AddSDKAgentKey(awsmiddleware.ApplicationIdentifier, c.cfg.AppID)
	}

	attempts := retry.NewAttemptMiddleware(c.retryer, smithyhttp.RequestCloner, func(a *retry.Attempt) {
		a.ClientSkew, a.DisableClockSkewCorrection = &c.skew, c.cfg.DisableClockSkewCorrection
	})

	err := errors.Join(
		stack.Serialize.Add(middleware.SerializeMiddlewareFunc("OperationSerializer", func(
			ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler,
		) (out middleware.SerializeOutput, metadata middleware.Metadata, err error) {
			if in.Request, err = c.encode(ctx, m); err != nil {
				return out, metadata, err
			}
			return next.HandleSerialize(ctx, in)
		}), middleware.After),

		stack.Build.Add(&awsmiddleware.ClientRequestID{}, middleware.After),
		stack.Build.Add(agent, middleware.After),
		stack.Build.Add(&awsmiddleware.RecursionDetection{}, middleware.After),

		stack.Finalize.Add(attempts, middleware.After),
		stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("Signing", func(
			ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
		) (out middleware.FinalizeOutput, metadata middleware.Metadata, err error) {
			if err := c.sign(ctx, in.Request, m.body); err != nil {
				return out, metadata, err
			}

			out, metadata, err = next.HandleFinalize(ctx, in)
			// The next attempt is signed with the time of the service, since it
			// rejects signatures of another time.
			if skew, ok := awsmiddleware.GetAttemptSkew(metadata); ok {
				c.skew.Store(int64(skew))
			}
			return out, metadata, err
		}), middleware.After),

		stack.Deserialize.Add(&awshttp.ResponseErrorWrapper{}, middleware.After),
		stack.Deserialize.Add(&awsmiddleware.RequestIDRetriever{}, middleware.After),
		stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("OperationDeserializer", func(
			ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
		) (middleware.DeserializeOutput, middleware.Metadata, error) {
			out, metadata, err := next.HandleDeserialize(ctx, in)
			if err == nil {
				err = m.decode(out.RawResponse)
			}
			return out, metadata, err
		}), middleware.After),
		stack.Deserialize.Add(&awsmiddleware.RecordResponseTiming{
			DisableClockSkewCorrection: c.cfg.DisableClockSkewCorrection,
		}, middleware.After),
	)

	for _, option := range c.options {
		err = errors.Join(err, option(stack))
	}
	return err
}

// encode returns a request with the content of a message.
func (c *client) encode(ctx context.Context, m *message) (*smithyhttp.Request, error) {
	at, err := c.endpoint(ctx,
		c.endpoints.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled,
		c.endpoints.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled,
	)
	if err != nil {
		return nil, err
	}

	at.RawPath = smithyhttp.JoinPath(at.EscapedPath(), m.path)
	if at.Path, err = url.PathUnescape(at.RawPath); err != nil {
		return nil, err
	}
	at.RawQuery = m.query.Encode()

	r := &smithyhttp.Request{Request: &http.Request{
		Method: m.method, URL: &at, Header: http.Header{}, ContentLength: int64(len(m.body)),
	}}
	for name, value := range m.header {
		r.Header.Set(name, value)
	}
	return r.SetStream(bytes.NewReader(m.body))
}

// sign adds a signature to a request.
func (c *client) sign(ctx context.Context, request any, body []byte) error {
	r, ok := request.(*smithyhttp.Request)
	if !ok {
		return fmt.Errorf("unexpected request %T", request)
	}

	if c.cfg.Credentials == nil {
		return errors.New("get identity: get credentials: there are none")
	}

	credentials, err := c.cfg.Credentials.Retrieve(ctx)
	// The SDK uses the same prefix, by which package hint recognizes missing
	// credentials.
	if err != nil {
		return fmt.Errorf("get identity: get credentials: %w", err)
	}

	now, sum := time.Now(), sha256.Sum256(body)
	if !c.cfg.DisableClockSkewCorrection {
		now = now.Add(time.Duration(c.skew.Load()))
	}
	return v4.NewSigner().SignHTTP(ctx, credentials, r.Request, hex.EncodeToString(sum[:]), c.name, c.cfg.Region, now)
}

// decode reads the response to a message.
func (m *message) decode(raw any) error {
	response, ok := raw.(*smithyhttp.Response)
	if !ok {
		return fmt.Errorf("unexpected response %T", raw)
	}

	content, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return &smithy.DeserializationError{Err: err}
	}

	if response.StatusCode < 200 || response.StatusCode >= 300 {
		return m.failed(response.Header, content)
	}
	if err := m.read(response.Header, content); err != nil {
		return &smithy.DeserializationError{Err: err, Snapshot: content[:min(len(content), 1024)]}
	}
	return nil
}
