package wire

import (
	"os"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Applies reports whether a client with these options does nothing that a Client
// would bypass. Options that only change what a request looks like or where it
// goes are in the model.
func Applies(o *dynamodb.Options) bool {
	// In a Lambda function each invocation has a trace ID, which the SDK sends.
	_, lambda := os.LookupEnv("AWS_LAMBDA_FUNCTION_NAME")
	if lambda || o.Credentials == nil || o.HTTPClient == nil {
		return false
	}

	if len(o.APIOptions) > 0 || hooked(&o.Interceptors) || o.ClientLogMode != 0 || o.EnableAcceptEncodingGzip {
		return false
	}

	// With these, the address may differ from call to call, unlike a model's.
	discovers := o.EndpointDiscovery.EnableEndpointDiscovery == aws.EndpointDiscoveryEnabled
	if discovers || o.EndpointResolver != nil { //nolint:staticcheck // callers may still use it
		return false
	}

	return !o.DisableClockSkewCorrection && len(o.AuthSchemePreference) == 0 && ordinary(o)
}

// hooked reports whether any list of a registry has elements.
func hooked(registry any) bool {
	// Reflection also finds lists that later releases of the SDK add.
	for _, list := range reflect.ValueOf(registry).Elem().Fields() {
		if list.Len() > 0 {
			return true
		}
	}
	return false
}

// ordinary reports whether the parts of a client that others can replace are the
// SDK's own.
func ordinary(o *dynamodb.Options) bool {
	// A client with default options has the parts of whichever release of the
	// SDK is in use.
	own := dynamodb.New(dynamodb.Options{Region: o.Region}).Options()

	for _, pair := range [][2]any{
		{o.HTTPSignerV4, own.HTTPSignerV4},
		{o.EndpointResolverV2, own.EndpointResolverV2},
		{o.AuthSchemeResolver, own.AuthSchemeResolver},
		{o.Protocol, own.Protocol},
		{o.TracerProvider, own.TracerProvider},
		{o.MeterProvider, own.MeterProvider},
	} {
		if reflect.TypeOf(pair[0]) != reflect.TypeOf(pair[1]) {
			return false
		}
	}

	return len(o.AuthSchemes) == 1 && reflect.TypeOf(o.AuthSchemes[0]) == reflect.TypeOf(own.AuthSchemes[0]) &&
		o.AuthSchemes[0].SchemeID() == own.AuthSchemes[0].SchemeID() &&
		reflect.TypeOf(o.AuthSchemes[0].Signer()) == reflect.TypeOf(own.AuthSchemes[0].Signer())
}
