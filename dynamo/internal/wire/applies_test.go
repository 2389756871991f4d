package wire

import (
	"context"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/auth"
	smithyendpoints "github.com/aws/smithy-go/endpoints"
	"github.com/aws/smithy-go/metrics"
	"github.com/aws/smithy-go/middleware"
	"github.com/aws/smithy-go/tracing"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Parts of a client that a caller has replaced.
type (
	ownSigner   struct{}
	ownResolver struct{ dynamodb.EndpointResolverV2 }
	ownAuth     struct{ dynamodb.AuthSchemeResolver }
	ownScheme   struct{ smithyhttp.AuthScheme }
	ownProtocol struct{ smithyhttp.ClientProtocol }
	ownTracer   struct{ tracing.NopTracerProvider }
	ownMeter    struct{ metrics.NopMeterProvider }
	ownHook     struct{}
)

func (ownSigner) SignHTTP(
	context.Context, aws.Credentials, *http.Request, string, string, string, time.Time,
	...func(*v4.SignerOptions),
) error {
	return nil
}

func (ownResolver) ResolveEndpoint(context.Context, dynamodb.EndpointParameters) (smithyendpoints.Endpoint, error) {
	return smithyendpoints.Endpoint{}, nil
}

func (ownScheme) SchemeID() string { return auth.SchemeIDSigV4A }

func (ownHook) BeforeTransmit(context.Context, *smithyhttp.InterceptorContext) error { return nil }

// bypassed holds, for each field of the options that a wire would bypass, a
// change that must keep it from being used.
var bypassed = map[string]func(o *dynamodb.Options){
	"APIOptions": func(o *dynamodb.Options) {
		o.APIOptions = append(o.APIOptions, func(*middleware.Stack) error { return nil })
	},
	"ClientLogMode":              func(o *dynamodb.Options) { o.ClientLogMode = aws.LogRequest },
	"Credentials":                func(o *dynamodb.Options) { o.Credentials = aws.AnonymousCredentials{} },
	"DisableClockSkewCorrection": func(o *dynamodb.Options) { o.DisableClockSkewCorrection = true },
	"EnableAcceptEncodingGzip":   func(o *dynamodb.Options) { o.EnableAcceptEncodingGzip = true },
	"EndpointDiscovery": func(o *dynamodb.Options) {
		o.EndpointDiscovery.EnableEndpointDiscovery = aws.EndpointDiscoveryEnabled
	},
	"EndpointResolver": func(o *dynamodb.Options) {
		//nolint:staticcheck // callers may still use it
		o.EndpointResolver = dynamodb.EndpointResolverFromURL("http://localhost")
	},
	"EndpointResolverV2":   func(o *dynamodb.Options) { o.EndpointResolverV2 = ownResolver{} },
	"HTTPSignerV4":         func(o *dynamodb.Options) { o.HTTPSignerV4 = ownSigner{} },
	"MeterProvider":        func(o *dynamodb.Options) { o.MeterProvider = ownMeter{} },
	"TracerProvider":       func(o *dynamodb.Options) { o.TracerProvider = &ownTracer{} },
	"Protocol":             func(o *dynamodb.Options) { o.Protocol = ownProtocol{o.Protocol} },
	"Interceptors":         func(o *dynamodb.Options) { o.Interceptors.AddBeforeTransmit(ownHook{}) },
	"AuthSchemeResolver":   func(o *dynamodb.Options) { o.AuthSchemeResolver = ownAuth{o.AuthSchemeResolver} },
	"AuthSchemes":          func(o *dynamodb.Options) { o.AuthSchemes = []smithyhttp.AuthScheme{ownScheme{}} },
	"AuthSchemePreference": func(o *dynamodb.Options) { o.AuthSchemePreference = []string{"sigv4a"} },
}

// kept lists the other fields, and why requests are the same with and without a
// wire.
var kept = map[string]string{
	"AccountIDEndpointMode":           "in the model",
	"AppID":                           "in the model",
	"BaseEndpoint":                    "in the model",
	"EndpointOptions":                 "in the model",
	"Region":                          "in the model",
	"HTTPClient":                      "used",
	"DefaultsMode":                    "in the HTTP client",
	"RuntimeEnvironment":              "in the HTTP client",
	"DisableValidateResponseChecksum": "the store sets it, so that the SDK compares no checksums either",
	"IdempotencyTokenProvider":        "an update has no token",
	"Logger":                          "ClientLogMode decides what it logs",
	"RetryMaxAttempts":                "the store's client does not retry updates",
	"RetryMode":                       "the store's client does not retry updates",
	"Retryer":                         "the store's client does not retry updates",
}

// TestEveryOptionIsJudged fails if the SDK has a new option: either requests of
// the wire follow it, or it must keep the wire from being used.
func TestEveryOptionIsJudged(t *testing.T) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[dynamodb.Options]()) {
		if _, follows := kept[f.Name]; f.IsExported() && follows == (bypassed[f.Name] != nil) {
			t.Errorf("dynamodb.Options.%s is in both lists or in none", f.Name)
		}
	}
	for name, change := range bypassed {
		t.Run(name, func(t *testing.T) {
			client := dynamodb.New(dynamodb.Options{Region: "us-east-1", Credentials: provider(func() aws.Credentials {
				return keys
			})}, change)
			if w, ok := New(client, nil); ok || w != nil {
				t.Error("the wire would bypass it")
			}
		})
	}
}

func TestAppliesToAPlainClient(t *testing.T) {
	client := dynamodb.New(dynamodb.Options{Region: "us-east-1", Credentials: provider(func() aws.Credentials {
		return keys
	})})
	if _, ok := New(client, nil); !ok {
		t.Error("a plain client does not use the wire")
	}
	t.Setenv("AWS_LAMBDA_FUNCTION_NAME", "f") // the SDK sends the trace ID of each invocation
	if _, ok := New(client, nil); ok {
		t.Error("the wire would bypass the trace ID of a Lambda function")
	}
}
