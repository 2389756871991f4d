package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// frontLimits returns two limits that never refuse.
func frontLimits() []limiter.Limit {
	return []limiter.Limit{
		limiter.Custom("rpm", plenty, 1_000_000, time.Minute),
		limiter.Custom("tpm", plenty, 1_000_000, time.Minute),
	}
}

// limitFlags returns frontLimits as flags of the program.
func limitFlags() (flags []string) {
	for _, l := range frontLimits() {
		flags = append(flags, "-l", fmt.Sprintf("%s:%d/min:%d", l.Name, l.Refill, l.Capacity))
	}
	return flags
}

// setDefaults signs in to a dashboard, and makes frontLimits the defaults of its
// store.
func setDefaults(ctx context.Context, dashboard, token string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	client := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}

	var session struct{ Path string }
	if err := postJSON(ctx, client, dashboard+"api/session", map[string]any{"token": token}, &session); err != nil {
		return err
	}
	change := map[string]any{"action": "set_limits", "limits": frontLimits()}
	return postJSON(ctx, client, dashboard+session.Path+"api/change", change, &struct{}{})
}

// postJSON makes a call as the page of the dashboard does.
func postJSON(ctx context.Context, client *http.Client, url string, body, answer any) (err error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(sent))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Sec-Fetch-Site", "same-origin")

	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, resp.Status, got)
	}
	return json.Unmarshal(got, answer)
}
