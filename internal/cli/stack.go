package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/infra"
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
	"github.com/zeroae/zae-limiter-go/internal/hint"
)

// stackHelp is shown with every command about a stack.
const stackHelp = `The stack is that of --name, else $ZAEL_STORE where that is dynamodb:NAME, else
$ZAEL_STACK, else "zae-limiter" unless $ZAEL_STORE is a store without a stack.
It has the name of its table.`

// tableScheme begins a store that is a table, and so may have a stack.
const tableScheme = "dynamodb:"

// stackConnection is which stack a command is about, and where it is.
type stackConnection struct {
	*console
	name, region, endpoint string
}

// addTo gives a command the flags of a stack.
func (s *stackConnection) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.name, "name", "n", "", "`name` of the stack and its table")
	s.addPlace(cmd)
}

// addPlace gives a command the flags of where stacks are.
func (s *stackConnection) addPlace(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.region, "region", "", "AWS `region`")
	cmd.Flags().StringVar(&s.endpoint, "endpoint-url", "", "`url` of an emulator to use instead of AWS")
}

// chosen is the name of the stack: that of the table which commands about data
// use, so that both are about the same. A store that is mistyped, or is no table,
// is an error: what would be found without it is another stack.
func (s *stackConnection) chosen() (string, error) {
	url := os.Getenv(envStore)
	if s.name != "" || url == "" {
		return dynamo.TableName(s.name), nil
	}
	chosen, err := storeFrom(envStore, url)
	switch {
	case err != nil:
		return "", err
	case chosen.dynamo:
		return strings.TrimPrefix(chosen.name, tableScheme), nil
	case os.Getenv(envStack) != "":
		return dynamo.TableName(""), nil
	}
	kind := "a file"
	if chosen.name == memoryStore {
		kind = "memory"
	}
	return "", usagef("the store at hand is %s (%s is %q), which has no stack; name a stack with --name", kind, envStore, clip(url))
}

// place is where commands go that this one suggests.
func (s *stackConnection) place() hint.Place {
	return hint.Place{Region: s.region, Endpoint: cmp.Or(s.endpoint, os.Getenv(envEndpoint))}
}

// sayStore ends a command that has made a table with the line that has later
// commands use it, unless they do.
func (s *stackConnection) sayStore(name string) {
	store, at := tableScheme+name, s.place()
	chosen := cmp.Or(os.Getenv(envStore), tableScheme+os.Getenv(envStack))
	if chosen == store && s.region == "" && s.endpoint == "" {
		return
	}
	words := []string{"export", envStore + "=" + store}
	if at.Region != "" {
		words = append(words, envRegion+"="+at.Region)
	}
	if at.Endpoint != "" {
		words = append(words, envEndpoint+"="+at.Endpoint)
	}
	s.say("Later commands use it after:")
	s.say("  %s", hint.Shell(words...))
}

// Variables that the AWS SDK reads.
const (
	envRegion          = "AWS_REGION"
	envEndpoint        = "AWS_ENDPOINT_URL"
	envTableEndpoint   = "AWS_ENDPOINT_URL_DYNAMODB"
	envIgnoreEndpoints = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
)

// options are those of every call about a stack.
func (s *stackConnection) options() (infra.Options, error) {
	if err := s.checkPlace(); err != nil {
		return infra.Options{}, err
	}
	return infra.Options{
		Dynamo:  dynamo.Options{Region: s.region, Endpoint: s.endpoint, Timeout: tableTimeout},
		Version: thisBuild().Version,
		Event:   s.event, Building: s.building,
	}, nil
}

// building says that the functions' code is compiled, and when that is done.
func (c *console) building(architecture string) (done func(error)) {
	began := time.Now()
	c.say("  building the functions' code for %s with Go, which may take minutes", architecture)
	stop := c.progress(func() string { return "building: " + tty.Duration(time.Since(began).Truncate(time.Second)) })
	return func(err error) {
		stop()
		if err == nil {
			c.say("  built in %s", tty.Duration(time.Since(began)))
		}
	}
}

// target is the stack, and how to reach it.
func (s *stackConnection) target() (name string, opts infra.Options, err error) {
	if opts, err = s.options(); err == nil {
		name, err = s.chosen()
	}
	return name, opts, err
}

// checkPlace judges where a stack is said to be.
func (s *stackConnection) checkPlace() error {
	if strings.Trim(s.region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return usagef("--region is %q, but it has to be a region such as us-east-1", clip(s.region))
	}
	return checkEndpoint(s.endpoint)
}

// checkEndpoint judges an address before anything is sent there.
func checkEndpoint(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usagef("--endpoint-url is %q, but it has to be an address such as http://localhost:8000", clip(endpoint))
	}
	return nil
}

// event tells what happens to a stack while one waits for it.
func (s *stackConnection) event(e infra.Event) {
	line := e.Time.Local().Format("15:04:05") + "  " + e.Status + "  " + e.Resource + " (" + e.Type + ")"
	if e.Reason != "" && strings.HasSuffix(e.Status, "FAILED") {
		line += ": " + e.Reason
	}
	s.say("  %s", line)
}

// confirmChanges shows what an update would do, and asks unless yes. Where nobody
// can be asked it goes on unless something would be lost.
func (s *stackConnection) confirmChanges(ctx context.Context, name string, yes bool) func([]infra.Change) error {
	return func(changes []infra.Change) error {
		for _, c := range changes {
			s.say("  %s", changeLine(c))
		}
		if yes || !s.asks && !slices.ContainsFunc(changes, losesSomething) {
			return nil
		}
		return s.ask(ctx, fmt.Sprintf("Make %s to stack %s?", count(len(changes), "change"), name))
	}
}

func losesSomething(c infra.Change) bool {
	return c.Action != "Add" && (c.Action != "Modify" || c.Replacement != "False")
}

// changeLine is a change as people read it.
func changeLine(c infra.Change) string {
	sign := map[string]string{"Add": "+", "Modify": "~", "Remove": "-"}[c.Action]
	line := fmt.Sprintf("%s %s (%s)", cmp.Or(sign, "?"), c.Resource, c.Type)
	scope := slices.Clone(c.Scope)
	slices.Sort(scope)
	if len(scope) > 0 {
		line += ": " + strings.Join(slices.Compact(scope), ", ")
	}
	switch c.Replacement {
	case "True":
		line += ", replaced"
	case "Conditional":
		line += ", perhaps replaced"
	}
	return line
}

// stackError makes a mistake in the command line what it is.
func stackError(err error) error {
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return usagef("%v", bad)
	}
	return err
}
