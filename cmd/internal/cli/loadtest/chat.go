package loadtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/internal/chatload"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// chatLoad holds the flags of loadtest local --url.
type chatLoad struct {
	url       *url.URL
	keys      []string
	model     string
	delay     time.Duration
	maxTokens int
}

// Defaults of a test with --url.
const (
	chatUsers    = 3
	chatDuration = 30 * time.Second
)

func (o *chatLoad) addFlags(cmd *cobra.Command) {
	o.keys, o.model, o.delay = []string{"key-alice", "key-bob", "key-charlie"}, "gpt-4", 100*time.Millisecond

	kit.AddFlag(cmd, &o.url, "url", "URL", "",
		"base URL of a server whose chat completions are called, in place of a scenario", parseChatURL)
	kit.AddFlag(cmd, &o.keys, "api-keys", "keys", strings.Join(o.keys, ","),
		"API keys for --url, which the calls use in turn", parseKeys)
	kit.AddFlag(cmd, &o.model, "model", "name", o.model, "model of the calls of --url", parseModel)
	kit.AddFlag(cmd, &o.delay, "delay", "duration", "100ms",
		"pause of a user of --url between two calls", kit.ParseDelay)
	kit.AddNumber(cmd, &o.maxTokens, "max-tokens", "",
		"most tokens of an answer to a call of --url (default: the server's)", 1, 1_000_000)
}

func parseChatURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must be a URL with a host, such as http://127.0.0.1:8080")
	case u.User != nil:
		return nil, &kit.FlagValueError{
			Message: "invalid --url: must not contain credentials; give API keys with --api-keys",
		}
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("must not have a query or a fragment")
	}
	return u, nil
}

func parseKeys(text string) ([]string, error) {
	keys := strings.Split(text, ",")
	for i, key := range keys {
		if keys[i] = strings.TrimSpace(key); keys[i] == "" || strings.ContainsFunc(keys[i], func(r rune) bool {
			return r <= ' ' || r > '~'
		}) {
			// A key is a secret, so the message must not repeat the value.
			return nil, &kit.FlagValueError{
				Message: "invalid --api-keys: must be API keys with commas between them, such as key-alice,key-bob",
			}
		}
	}
	return keys, nil
}

func parseModel(text string) (string, error) {
	if strings.TrimSpace(text) == "" {
		return "", errors.New("must be the name of a model, such as gpt-4")
	}
	return text, nil
}

// check rejects flags that have no effect.
func (o *chatLoad) check(cmd *cobra.Command, args []string) (err error) {
	own := []string{"api-keys", "model", "delay", "max-tokens"}
	shared := []string{"url", "users", "duration", "json", kit.OutputFlag}

	if o.url != nil && len(args) > 0 {
		return kit.Usagef("unexpected argument %q: --url takes the place of a scenario; leave one of them out",
			kit.Clip(args[0]))
	}

	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case err != nil:
		case o.url == nil && slices.Contains(own, f.Name):
			err = kit.Usagef("--%s has no effect without --url; add it or leave the flag out", f.Name)
		case o.url != nil && !slices.Contains(slices.Concat(own, shared), f.Name):
			err = kit.Usagef("--%s has no effect with --url; leave one of them out", f.Name)
		}
	})

	return err
}

// chatLoadJSON is the output of loadtest local --url as JSON.
type chatLoadJSON struct {
	URL             string           `json:"url" doc:"server under test"`
	Users           int              `json:"users" doc:"calls at a time"`
	Elapsed         float64          `json:"duration_seconds" doc:"how long the users ran"`
	Requests        int64            `json:"total_requests" doc:"calls that ended"`
	OK              int64            `json:"ok" doc:"calls with status 200 and a usage"`
	Refused         int64            `json:"refused" doc:"calls with status 429"`
	Failed          int64            `json:"total_failures" doc:"other calls"`
	Cancelled       int64            `json:"cancelled" doc:"calls running at the end; no other figure counts them"`
	Tokens          int64            `json:"total_tokens" doc:"tokens that the answers report as used"`
	RPS             float64          `json:"requests_per_second" doc:"calls / duration"`
	OKPerSecond     float64          `json:"ok_per_second" doc:"calls with status 200 / duration"`
	TokensPerSecond float64          `json:"tokens_per_second" doc:"tokens / duration"`
	RefusedRate     float64          `json:"refused_rate" doc:"refused part of the calls, from 0 to 1"`
	Failures        map[string]int64 `json:"failures" doc:"failed calls by cause"`
}

// runChat runs a test against a server and prints its figures.
func runChat(ctx context.Context, o *localOptions) error {
	users, duration := chatUsers, chatDuration
	if o.usersGiven {
		users = o.users
	}
	if o.durationGiven {
		duration = o.duration
	}

	o.Say("running %s for %s, on %s", kit.Count(users, "user"), shortLength(duration), o.chat.url)

	test := chatload.New(&chatload.Options{
		URL: o.chat.url, Keys: o.chat.keys, Model: o.chat.model, Workers: users, Duration: duration,
		Delay: o.chat.delay, MaxTokens: o.chat.maxTokens,
	})

	stop := follow(o.Console, func() string {
		r := test.Result()
		return fmt.Sprintf("%s: calls %s, ok %s, refused %s, failed %s",
			tty.Duration(r.Elapsed.Truncate(time.Second)), tty.Number(r.Calls()), tty.Number(r.OK),
			tty.Number(r.Refused), tty.Number(r.Failed))
	})

	r, err := test.Run(ctx)
	stop()

	// Without any answer there are no figures to print.
	if errors.Is(err, chatload.ErrUnreachable) {
		return err
	}

	switch {
	case ctx.Err() != nil:
		o.Warn("interrupted; the figures cover the time until then")
	case r.Cancelled > 0:
		o.Warn("cancelled %s that had not ended %s after the end of the test", kit.Count(int(r.Cancelled), "call"),
			shortLength(chatload.DefaultStopTimeout))
	}

	for _, cause := range slices.Sorted(maps.Keys(r.Failures)) {
		o.Warn("%s failed: %s", kit.Count(int(r.Failures[cause]), "call"), cause)
	}

	return errors.Join(o.printChatLoad(r, users), err)
}

func (o *localOptions) printChatLoad(r chatload.Result, users int) error {
	// Without calls, every share is 0 and not a division by zero.
	total := max(r.Calls(), 1)

	return kit.PrintProperties(o.Console, o.json, []kit.Property{
		{Name: "requests", Value: kit.Number(r.Calls())},
		{Name: "ok", Value: withShare(r.OK, total)},
		{Name: "refused (429)", Value: withShare(r.Refused, total)},
		{Name: "failures", Value: withShare(r.Failed, total)},
		{Name: "cancelled", Value: kit.Number(r.Cancelled)},
		{Name: "requests/s", Value: oneDecimal(r.PerSecond(r.Calls()))},
		{Name: "ok/s", Value: oneDecimal(r.PerSecond(r.OK))},
		{Name: "tokens", Value: kit.Number(r.Tokens)},
		{Name: "tokens/s", Value: oneDecimal(r.PerSecond(r.Tokens))},
		{Name: "seconds", Value: oneDecimal(r.Elapsed.Seconds())},
	}, chatLoadJSON{
		URL: o.chat.url.String(), Users: users, Elapsed: r.Elapsed.Seconds(), Requests: r.Calls(), OK: r.OK,
		Refused: r.Refused, Failed: r.Failed,
		Cancelled: r.Cancelled, Tokens: r.Tokens, RPS: r.PerSecond(r.Calls()), OKPerSecond: r.PerSecond(r.OK),
		TokensPerSecond: r.PerSecond(r.Tokens),
		RefusedRate:     float64(r.Refused) / float64(total), Failures: r.Failures,
	})
}

// withShare returns a number, for people with its share of a total.
func withShare(n, of int64) kit.Cell {
	c := kit.Number(n)
	c.Display += fmt.Sprintf(" (%.1f%%)", 100*float64(n)/float64(of))
	return c
}
