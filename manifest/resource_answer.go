package manifest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ResourceAnswer is what CloudFormation gets.
type ResourceAnswer struct {
	Status             string // SUCCESS or FAILED
	Reason             string `json:",omitempty"` // why it failed
	PhysicalResourceID string `json:"PhysicalResourceId"`
	StackID            string `json:"StackId"`
	RequestID          string `json:"RequestId"`
	LogicalResourceID  string `json:"LogicalResourceId"`
	Data               *ResourceData
}

// ResourceData are counts: there is no room for more.
type ResourceData struct {
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Deleted   int `json:"deleted"`
	Unchanged int `json:"unchanged"`
	Failed    int `json:"failed"`
}

// What CloudFormation accepts.
const (
	succeeded, failed = "SUCCESS", "FAILED"
	maxAnswer         = 4096 // bytes
)

// body is the answer as JSON, with a reason that is short enough.
func (a *ResourceAnswer) body() ([]byte, error) {
	for {
		body, err := json.Marshal(a)
		if err != nil || len(body) <= maxAnswer || a.Reason == "" {
			return body, err
		}
		a.Reason = strings.ToValidUTF8(a.Reason[:len(a.Reason)*3/4], "")
	}
}

// send brings the answer to CloudFormation, and tries more than once.
func (a *ResourceAnswer) send(ctx context.Context, client *http.Client, to string) error {
	if client == nil {
		client = &http.Client{Timeout: 5 * time.Second}
	}
	body, err := a.body()
	if err != nil {
		return err
	}
	const maxTries = 4
	for try := 1; ; try++ {
		again, err := put(ctx, client, to, body)
		if err == nil || !again || try == maxTries {
			return err
		}
		if pause(ctx, time.Second<<(try-1)/2) != nil {
			return err
		}
	}
}

// put sends the body once, without a content type, which is a part of the
// signature of the URL.
func put(ctx context.Context, client *http.Client, to string, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, to, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the answer cannot be brought to CloudFormation: ResponseURL is no address")
	}
	reply, err := client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the address: whoever knows it may answer
		}
		return true, fmt.Errorf("the answer was not brought to CloudFormation: %w", err)
	}
	_ = reply.Body.Close() // what is in it is of no use
	if reply.StatusCode/100 == 2 {
		return false, nil
	}
	again = reply.StatusCode >= 500 || reply.StatusCode == http.StatusRequestTimeout || reply.StatusCode == http.StatusTooManyRequests
	return again, fmt.Errorf("CloudFormation did not take the answer: %s", reply.Status)
}
