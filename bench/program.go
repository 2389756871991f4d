package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// program is zae-limiter, built from this checkout. It runs as its users run it:
// in a process of its own.
type program struct {
	folder string // of the program and its files
	token  string // that its servers accept
}

// buildProgram builds the program in a temporary folder. The caller calls remove.
func buildProgram(ctx context.Context) (*program, error) {
	folder, err := os.MkdirTemp("", "zae-limiter-bench-")
	if err != nil {
		return nil, err
	}
	p := &program{folder: folder, token: rand.Text()}

	cmd := goCommand(ctx, "../cmd", "build", "-trimpath", "-o", folder, "./zae-limiter")
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("%v: %w: %s", cmd, err, out), p.remove())
	}
	return p, nil
}

// goCommand returns a go command in a folder of this checkout. It works in the
// workspace around that folder, whatever this process has: the one of this module
// has no other modules.
func goCommand(ctx context.Context, folder string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	cmd.Env = append(cmd.Environ(), "GOWORK=")
	return cmd
}

func (p *program) remove() error { return os.RemoveAll(p.folder) }

// programCommand is the first argument of a process that runs zae-limiter. The
// others are its path and its arguments.
const programCommand = "-program"

// serveProgram runs a program until in ends, and copies its messages to out. The
// access log on its standard output is dropped. Like serveRedis, it runs in a
// process of its own.
func serveProgram(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	return runWhile(ctx, in, nil, io.MultiWriter(os.Stderr, out), args...)
}

// start starts the program and returns its addresses, which are the words after
// these texts in its messages.
func (p *program) start(ctx context.Context, texts []string, args ...string) (*child, []string, error) {
	args = append([]string{programCommand, filepath.Join(p.folder, "zae-limiter")}, args...)
	c, err := start(ctx, pythonEnv(), thisProgram, args...)
	if err != nil {
		return nil, nil, err
	}

	var addresses []string
	for _, text := range texts {
		address, err := c.wordAfter(text)
		if err != nil {
			return nil, nil, err
		}
		addresses = append(addresses, address)
	}
	go func() { _, _ = io.Copy(io.Discard, c.out) }() // later messages must not fill the pipe
	return c, addresses, nil
}

// limitServer is a server of limits on memory. They never refuse.
type limitServer struct {
	*child
	http, grpc string // addresses
}

// serve starts a server with the rules that Envoy's service follows. The limits
// of a store in memory can be set on the dashboard alone, and its changes need a
// token.
func (p *program) serve(ctx context.Context) (*limitServer, error) {
	tokens, rules := filepath.Join(p.folder, "tokens.yaml"), filepath.Join(p.folder, "rules.yaml")
	entry := fmt.Sprintf(`tokens: [{name: bench, sha256: "%x", role: admin, namespace: default}]`,
		sha256.Sum256([]byte(p.token)))
	err := errors.Join(os.WriteFile(tokens, []byte(entry), 0o600), os.WriteFile(rules, []byte(envoyRules), 0o600))
	if err != nil {
		return nil, err
	}

	process, at, err := p.start(ctx, []string{"Serving http://", "rate limit service on "},
		"serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--rules", rules,
		"--tokens", tokens, "--dashboard", "--dashboard-write")
	if err != nil {
		return nil, err
	}

	if err := setDefaults(ctx, "http://"+at[0]+"/dashboard/", p.token); err != nil {
		return nil, errors.Join(err, process.close())
	}
	return &limitServer{process, at[0], at[1]}, nil
}

// proxy starts the proxy with an access log, and returns its address.
func (p *program) proxy(ctx context.Context, upstream string) (*child, string, error) {
	args := append([]string{
		"proxy", "--upstream", upstream, "--store", "memory:", "--listen", "127.0.0.1:0", "--new-entities",
		strconv.Itoa(proxyCallers),
	}, limitFlags()...)
	process, at, err := p.start(ctx, []string{" on http://"}, args...)
	if err != nil {
		return nil, "", err
	}
	return process, at[0], nil
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
