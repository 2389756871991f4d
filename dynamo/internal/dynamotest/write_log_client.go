package dynamotest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// config is awsConfig, watched by the stream.
func (s *WriteLog) Config(endpoint string) *aws.Config {
	cfg := Config(endpoint)
	cfg.HTTPClient = &writeLogClient{s, cfg.HTTPClient}
	return cfg
}

// streamed carries requests, and has the stream look at what they may have
// written, whatever became of them.
type writeLogClient struct {
	log  *WriteLog
	next aws.HTTPClient
}

// Do sends a request.
func (w *writeLogClient) Do(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	var keys []bucketKey
	switch Operation(req.Header) {
	case "PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem":
		var doc any
		if err := json.Unmarshal(body, &doc); err != nil {
			return nil, fmt.Errorf("the body of a request: %w", err)
		}
		keys = bucketKeys(doc)
	}
	if keys == nil {
		return w.next.Do(req)
	}
	w.log.writing.Lock()
	defer w.log.writing.Unlock()
	resp, err := w.next.Do(req)
	for _, k := range keys {
		w.log.look(req.Context(), k, err == nil && resp.StatusCode == http.StatusOK)
	}
	return resp, err
}

// callTime is the key of the time of the call that a context is for.
type callTime struct{}

func calledAt(ctx context.Context, now time.Time) context.Context {
	return context.WithValue(ctx, callTime{}, now)
}

// bucketKeys are the keys of buckets in a request.
func bucketKeys(doc any) (keys []bucketKey) {
	switch doc := doc.(type) {
	case []any:
		for _, part := range doc {
			keys = append(keys, bucketKeys(part)...)
		}
	case map[string]any:
		pk, _ := doc["PK"].(map[string]any)
		sk, _ := doc["SK"].(map[string]any)
		if name, _ := sk["S"].(string); pk != nil && strings.HasPrefix(name, "#BUCKET#") {
			return []bucketKey{{fmt.Sprint(pk["S"]), name}}
		}
		for _, part := range doc {
			keys = append(keys, bucketKeys(part)...)
		}
	}
	return keys
}
