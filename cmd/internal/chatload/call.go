package chatload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
)

// maxAnswer bounds the bytes of an answer.
const maxAnswer = 1 << 20

// maxUsage bounds the tokens that one call can have used, far above what any model
// takes. The sum over all calls of a test stays within 64 bits.
const maxUsage = 100_000_000

// The ways in which an answer with status 200 is not one of a chat API.
var (
	errLong    = errors.New("the answer is longer than 1 MiB")
	errShort   = errors.New("the answer ends early")
	errNotJSON = errors.New("the answer is not JSON")
	errNoUsage = errors.New("the answer reports no usage")
	errUsage   = errors.New("the answer reports a usage that is not a whole number from 0 to 100,000,000")
)

// call makes one call and returns its status and tokens.
func (t *Test) call(ctx context.Context, key string) (status int, tokens int64, err error) {
	req, err := t.request(ctx, key)
	if err != nil {
		return 0, 0, err
	}

	resp, err := t.client.Do(req)
	if err != nil {
		return 0, 0, err
	}

	t.answers.Add(1)
	// The one byte more shows that the answer is too long.
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	_ = resp.Body.Close()

	switch {
	case err != nil:
		return resp.StatusCode, 0, err
	// Other answers count by their status. Their bodies report no usage.
	case resp.StatusCode != http.StatusOK:
		return resp.StatusCode, 0, nil
	case len(text) > maxAnswer:
		return resp.StatusCode, 0, errLong
	}

	tokens, err = usageOf(text)
	return resp.StatusCode, tokens, err
}

func (t *Test) request(ctx context.Context, key string) (*http.Request, error) {
	body, err := json.Marshal(struct {
		Model     string              `json:"model"`
		Messages  []map[string]string `json:"messages"`
		MaxTokens int                 `json:"max_tokens,omitempty"`
	}{
		t.opts.Model,
		[]map[string]string{{"role": "user", "content": "How does a token bucket work?"}},
		t.opts.MaxTokens,
	})
	if err != nil {
		return nil, err
	}

	target := t.opts.URL.JoinPath("v1", "chat", "completions").String()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}

	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", key)
	return req, nil
}

// usageOf returns the tokens that an answer reports as used.
func usageOf(text []byte) (int64, error) {
	if !json.Valid(text) {
		return 0, errNotJSON
	}

	var answer struct {
		Usage *struct {
			Total json.RawMessage `json:"total_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(text, &answer) != nil || answer.Usage == nil || answer.Usage.Total == nil {
		return 0, errNoUsage
	}

	// The pointer distinguishes null from 0, and the raw text a wrong value
	// from a missing one.
	var total *int64
	switch err := json.Unmarshal(answer.Usage.Total, &total); {
	case err == nil && total == nil:
		return 0, errNoUsage
	case err != nil || *total < 0 || *total > maxUsage:
		return 0, errUsage
	}
	return *total, nil
}

// cause returns the cause of an error without what differs from call to call, such
// as local ports, so that causes are few.
func cause(err error) string {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "timeout"
	}

	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	// The text of such an error has the local port, which differs for each
	// call.
	if wrapped, ok := errors.AsType[*net.OpError](err); ok && wrapped.Op != "dial" {
		return wrapped.Op + ": " + wrapped.Err.Error()
	}

	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errShort.Error()
	case errors.Is(err, io.EOF):
		return "the server closes the connection without an answer"
	}
	return err.Error()
}
