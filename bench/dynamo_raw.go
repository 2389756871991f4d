package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Engines on this machine accept any credentials, but keep separate data for
// each region and access key.
const awsRegion, awsKey = "us-east-1", "test"

func awsConfig() aws.Config {
	return aws.Config{Region: awsRegion, Credentials: credentials.NewStaticCredentialsProvider(awsKey, awsKey, "")}
}

// tunedClient returns an HTTP client with the settings of our store's own
// client.
func tunedClient() *awshttp.BuildableClient {
	const idle = 512
	return awshttp.NewBuildableClient().WithDialerOptions(func(d *net.Dialer) {
		d.Timeout, d.KeepAlive = time.Second, 15*time.Second
	}).WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 2*idle, idle
		t.IdleConnTimeout = 90 * time.Second
		t.TLSHandshakeTimeout = 2 * time.Second
		t.ResponseHeaderTimeout = 5 * time.Second
	})
}

// newRawClient returns an SDK client as our store uses it for charges: without
// retries.
func newRawClient(endpoint string, client aws.HTTPClient) *dynamodb.Client {
	cfg := awsConfig()
	cfg.HTTPClient = client
	return dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		o.BaseEndpoint, o.Retryer, o.DisableValidateResponseChecksum = &endpoint, aws.NopRetryer{}, true
	})
}

// recorder keeps the last update that a client sent.
type recorder struct {
	aws.HTTPClient
	mu   sync.Mutex
	last []byte
}

func (r *recorder) Do(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.Header.Get("X-Amz-Target"), ".UpdateItem") && req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err := errors.Join(err, req.Body.Close()); err != nil {
			return nil, err
		}
		// The client has yet to send what was read here.
		req.Body = io.NopCloser(bytes.NewReader(body))

		// A cascade sends two updates at once.
		r.mu.Lock()
		r.last = body
		r.mu.Unlock()
	}
	return r.HTTPClient.Do(req)
}

// wireUpdate is an update as sent.
type wireUpdate struct {
	TableName, UpdateExpression, ConditionExpression  *string
	ReturnValues, ReturnValuesOnConditionCheckFailure string
	Key, ExpressionAttributeValues                    map[string]wireValue
	ExpressionAttributeNames                          map[string]string
}

// wireValue holds the kinds of values in a charge.
type wireValue struct {
	S, N *string
	BOOL *bool
}

func (v wireValue) decode() (types.AttributeValue, error) {
	switch {
	case v.S != nil:
		return &types.AttributeValueMemberS{Value: *v.S}, nil
	case v.N != nil:
		return &types.AttributeValueMemberN{Value: *v.N}, nil
	case v.BOOL != nil:
		return &types.AttributeValueMemberBOOL{Value: *v.BOOL}, nil
	}
	return nil, errors.New("the recorded update has a value of an unknown kind")
}

func decodeValues(values map[string]wireValue) (map[string]types.AttributeValue, error) {
	decoded := make(map[string]types.AttributeValue, len(values))
	for name, v := range values {
		var err error
		if decoded[name], err = v.decode(); err != nil {
			return nil, err
		}
	}
	return decoded, nil
}

// input returns the SDK input of the recorded update, so the raw client always
// sends what our store sends.
func (r *recorder) input() (*dynamodb.UpdateItemInput, error) {
	if r.last == nil {
		return nil, errors.New("a warm acquire sent no UpdateItem")
	}

	var u wireUpdate
	if err := json.Unmarshal(r.last, &u); err != nil {
		return nil, err
	}

	key, err := decodeValues(u.Key)
	if err != nil {
		return nil, err
	}

	values, err := decodeValues(u.ExpressionAttributeValues)
	return &dynamodb.UpdateItemInput{
		TableName: u.TableName, Key: key, UpdateExpression: u.UpdateExpression,
		ConditionExpression:      u.ConditionExpression,
		ExpressionAttributeNames: u.ExpressionAttributeNames, ExpressionAttributeValues: values,
		ReturnValues: types.ReturnValue(u.ReturnValues),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailure(
			u.ReturnValuesOnConditionCheckFailure,
		),
	}, err
}

// rawUpdate returns a call that sends the update.
func rawUpdate(client *dynamodb.Client, in *dynamodb.UpdateItemInput) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := client.UpdateItem(ctx, in)
		return err
	}
}
