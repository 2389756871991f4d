// Package wire sends an UpdateItem for less CPU time than the SDK's client. It
// copies a request that the SDK has made, signs it with the SDK's signer and
// sends it through the SDK's HTTP client. It decodes a plain success itself. The
// SDK decodes every other response, so that errors are the same both ways.
package wire

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/schemas"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Client sends updates, each once. It is safe for concurrent use.
type Client struct {
	// Makes the models.
	plain   *dynamodb.Client
	send    func(*http.Request) (*http.Response, error)
	options dynamodb.Options
	schema  *smithy.OperationSchema
	model   atomic.Pointer[model]
	// How far the service's clock is ahead, by its last response.
	skew atomic.Int64
}

// New returns a client that sends what plain would send, with send. It returns nil
// and false if plain does something that a Client would bypass; see Applies.
func New(plain *dynamodb.Client, send func(*http.Request) (*http.Response, error)) (*Client, bool) {
	options := plain.Options()
	if !Applies(&options) {
		return nil, false
	}

	return &Client{
		plain: plain, send: send, options: options,
		schema: smithy.NewOperationSchema(schemas.UpdateItem, schemas.UpdateItemInput, schemas.UpdateItemOutput),
	}, true
}

// ErrUnsent reports that the SDK has to send an update: nothing was sent.
var ErrUnsent = errors.New("the SDK has to send the update")

// UpdateItem does what the method of the SDK's client does, without retries. Its
// errors have the same types, wrapped in the same way. It returns ErrUnsent if it
// cannot send the update, or knows that the SDK could not either.
func (c *Client) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput) (*dynamodb.UpdateItemOutput, error) {
	req, signed := c.request(ctx, in)
	if req == nil {
		return nil, ErrUnsent
	}

	sent := time.Now()
	resp, err := c.send(req)
	if err != nil {
		return nil, sendError(ctx, resp, err)
	}

	skew, known := skewOf(resp.Header, sent, time.Now())
	if known {
		c.skew.Store(int64(skew))
	}

	out, err := c.read(ctx, resp)
	if err == nil {
		return out, nil
	}

	err = responseError(resp, err)

	// The date of the signature had a correction. If the service is 10 minutes
	// ahead and the correction was 9, the signature was off by one only.
	if known && isSkewed(err, skew-signed) {
		err = &skewError{err}
	}
	return nil, operationError(err)
}

// request returns a signed request, and the skew that its date includes. It
// returns nil if the SDK has to send the update or to report why it cannot.
func (c *Client) request(ctx context.Context, in *dynamodb.UpdateItemInput) (*http.Request, time.Duration) {
	body, ok := encode(in)
	if !ok || ctx.Err() != nil {
		return nil, 0
	}

	credentials, err := c.options.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, 0
	}

	m := c.model.Load()
	if m == nil || !m.fits(in, &credentials) {
		if m, err = c.newModel(ctx, in, credentials); err != nil {
			return nil, 0
		}
		c.model.Store(m)
	}

	skew := time.Duration(c.skew.Load())
	req, err := m.request(ctx, body, skew)
	if err != nil {
		return nil, 0
	}
	if err := m.sign(ctx, c.options.HTTPSignerV4, req, body, time.Now().Add(skew)); err != nil {
		return nil, 0
	}
	return req, skew
}

// read reads a response and closes it. It decodes a plain success, and leaves
// everything else to the SDK, with the same bytes and the same end.
func (c *Client) read(ctx context.Context, resp *http.Response) (*dynamodb.UpdateItemOutput, error) {
	var body bytes.Buffer
	if n := resp.ContentLength; n > 0 && n < maxBuffer {
		body.Grow(int(n) + bytes.MinRead)
	}

	// The HTTP client uses a connection again only if the body was read to its
	// end.
	_, failed := body.ReadFrom(resp.Body)
	_ = resp.Body.Close()

	if failed == nil && resp.StatusCode == http.StatusOK {
		if item, ok := decode(body.String()); ok {
			return &dynamodb.UpdateItemOutput{Attributes: item}, nil
		}
	}

	// The SDK decodes from the bytes that are read already, and meets the same
	// end of the body.
	resp.Body = &replay{body.Bytes(), failed}
	out := &dynamodb.UpdateItemOutput{}
	return out, c.options.Protocol.DeserializeResponse(ctx, c.schema, dynamodb.TypeRegistry,
		&smithyhttp.Response{Response: resp}, out)
}

// maxBuffer is the longest response for which memory is reserved: an item has up
// to 400 kB.
const maxBuffer = 1 << 20
