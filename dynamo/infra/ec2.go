package infra

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// networkClient calls EC2. It needs three calls only, and the package of the SDK
// takes a minute to compile.
type networkClient struct{ cfg aws.Config }

// call sends a request and decodes its response into out.
func (c *networkClient) call(ctx context.Context, op string, args url.Values, out any) error {
	args.Set("Action", op)
	args.Set("Version", "2016-11-15")
	// The clients of the SDK take their retries from the same configuration.
	retryer := newRetryer()
	if c.cfg.Retryer != nil {
		retryer = c.cfg.Retryer()
	}

	for attempt := 1; ; attempt++ {
		err := c.send(ctx, []byte(args.Encode()), out)
		if err == nil {
			return nil
		}

		// The type carries the operation, which the advice about missing
		// permissions names.
		err = &smithy.OperationError{ServiceID: "EC2", OperationName: op, Err: err}
		if attempt >= retryer.MaxAttempts() || !retryer.IsErrorRetryable(err) {
			return err
		}

		delay, noDelay := retryer.RetryDelay(attempt, err)
		if noDelay != nil {
			return err
		}

		if err := pause.For(ctx, delay); err != nil {
			return err
		}
	}
}

// send sends one signed request.
func (c *networkClient) send(ctx context.Context, body []byte, out any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint(), bytes.NewReader(body))
	if err != nil {
		return err
	}

	request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")

	if c.cfg.Credentials == nil {
		return errors.New("get credentials: there are none")
	}
	credentials, err := c.cfg.Credentials.Retrieve(ctx)
	// The SDK uses the same prefix, by which package hint recognizes missing
	// credentials.
	if err != nil {
		return fmt.Errorf("get credentials: %w", err)
	}

	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(
		ctx, credentials, request, hex.EncodeToString(sum[:]), "ec2", c.cfg.Region, time.Now(),
	); err != nil {
		return err
	}

	response, err := c.client().Do(request)
	if err != nil {
		// Retryers know this type as a failed connection.
		return &smithyhttp.RequestSendError{Err: err}
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}

	if response.StatusCode != http.StatusOK {
		return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: response}, Err: networkError(content)}
	}

	return xml.Unmarshal(content, out)
}

func (c *networkClient) client() aws.HTTPClient {
	if c.cfg.HTTPClient != nil {
		return c.cfg.HTTPClient
	}
	return http.DefaultClient
}

// endpoint returns the URL of EC2.
func (c *networkClient) endpoint() string {
	if c.cfg.BaseEndpoint != nil {
		return *c.cfg.BaseEndpoint + "/"
	}
	domain := "amazonaws.com"
	if strings.HasPrefix(c.cfg.Region, "cn-") {
		domain += ".cn"
	}
	return "https://ec2." + c.cfg.Region + "." + domain + "/"
}

// networkError returns the error in a response.
func networkError(content []byte) error {
	var found struct {
		Code    string `xml:"Errors>Error>Code"`
		Message string `xml:"Errors>Error>Message"`
	}
	if err := xml.Unmarshal(content, &found); err != nil {
		return fmt.Errorf("the response is not from EC2: %w", err)
	}
	return &smithy.GenericAPIError{Code: found.Code, Message: found.Message}
}
