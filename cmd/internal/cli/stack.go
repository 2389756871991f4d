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
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/internal/hint"
)

// stackHelp describes in the help how commands find their stack.
const stackHelp = `The stack is --name, else the table of $ZAEL_STORE (dynamodb:NAME), else
$ZAEL_STACK, else "zae-limiter" unless $ZAEL_STORE is a store without a stack.
A stack has the name of its table.`

// tableScheme is the prefix of a store that is a DynamoDB table.
const tableScheme = "dynamodb:"

// stackConnection selects the stack of a command, by flags or environment
// variables.
type stackConnection struct {
	*console
	name, region, endpoint string
}

// addTo adds the flags of a stack to a command.
func (s *stackConnection) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.name, "name", "n", "", "`name` of the stack and its table")
	s.addPlace(cmd)
}

// addPlace adds the flags of the region and the endpoint to a command.
func (s *stackConnection) addPlace(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.region, "region", "", "AWS `region`")
	cmd.Flags().StringVar(&s.endpoint, "endpoint-url", "", "`URL` of an emulator, in place of AWS")
}

// stackName returns the name of the stack, which is the table that data commands
// use. An environment with an invalid store, or one without a stack, is an error,
// since the default would be another stack.
func (s *stackConnection) stackName() (string, error) {
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
	return "", usagef("the store is %s (%s is %q), which has no stack; name a stack with --name", kind, envStore,
		clip(url))
}

// place returns the region and the endpoint for commands to suggest.
func (s *stackConnection) place() hint.Place {
	return hint.Place{Region: s.region, Endpoint: cmp.Or(s.endpoint, os.Getenv(envEndpoint))}
}

// suggestStore prints the line that makes later commands use a new table, unless
// they do already.
func (s *stackConnection) suggestStore(name string) {
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

	s.say("To use it in later commands, run:")
	s.say("  %s", hint.Shell(words...))
}

// Environment variables that the AWS SDK reads.
const (
	envRegion          = "AWS_REGION"
	envEndpoint        = "AWS_ENDPOINT_URL"
	envTableEndpoint   = "AWS_ENDPOINT_URL_DYNAMODB"
	envIgnoreEndpoints = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
)

// options returns the options for calls of infra.
func (s *stackConnection) options() (infra.Options, error) {
	if err := s.checkPlace(); err != nil {
		return infra.Options{}, err
	}
	return infra.Options{
		Dynamo:  dynamo.Options{Region: s.region, Endpoint: s.endpoint, Timeout: tableTimeout},
		Version: s.version,
		Event:   s.event, Building: s.building,
	}, nil
}

// building reports that the functions' code is being compiled, and when it is
// done.
func (c *console) building(architecture string) (done func(error)) {
	began := time.Now()
	c.say("  building the functions' code for %s with Go; this may take minutes", architecture)
	stop := c.progress(func() string { return "building: " + tty.Duration(time.Since(began).Truncate(time.Second)) })

	return func(err error) {
		stop()
		if err == nil {
			c.say("  built in %s", tty.Duration(time.Since(began)))
		}
	}
}

// target returns the name of the stack and the options for calls about it.
func (s *stackConnection) target() (name string, opts infra.Options, err error) {
	if opts, err = s.options(); err == nil {
		name, err = s.stackName()
	}
	return name, opts, err
}

// checkPlace validates the region and the endpoint.
func (s *stackConnection) checkPlace() error {
	if strings.Trim(s.region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return usagef("invalid --region %q: must be a region such as us-east-1", clip(s.region))
	}
	return checkEndpoint(s.endpoint)
}

// checkEndpoint validates the URL of an endpoint.
func checkEndpoint(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usagef("invalid --endpoint-url %q: must be a URL such as http://localhost:8000", clip(endpoint))
	}
	return nil
}

// event reports an event of the stack.
func (s *stackConnection) event(e infra.Event) {
	line := e.Time.Local().Format("15:04:05") + "  " + e.Status + "  " + e.Resource + " (" + e.Type + ")"

	// Events of other states have reasons that say nothing, such as "User
	// Initiated".
	if e.Reason != "" && strings.HasSuffix(e.Status, "FAILED") {
		line += ": " + e.Reason
	}
	s.say("  %s", line)
}

// confirmChanges returns a function that shows the changes of an update and asks
// for confirmation, unless yes is set. Without a terminal to ask on, only
// destructive changes need yes.
func (s *stackConnection) confirmChanges(ctx context.Context, name string, yes bool) func([]infra.Change) error {
	return func(changes []infra.Change) error {
		for _, c := range changes {
			s.say("  %s", changeLine(c))
		}

		if yes || !s.canAsk && !slices.ContainsFunc(changes, isDestructive) {
			return nil
		}
		return s.ask(ctx, fmt.Sprintf("Make %s to stack %s?", count(len(changes), "change"), name))
	}
}

// isDestructive reports whether a change may lose data. Only an addition, and a
// modification that surely replaces nothing, do not.
func isDestructive(c infra.Change) bool {
	return c.Action != "Add" && (c.Action != "Modify" || c.Replacement != "False")
}

// changeLine returns a change of a stack on one line.
func changeLine(c infra.Change) string {
	// CloudFormation has further actions, such as Import.
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

// stackError turns an *InvalidError into a usage error.
func stackError(err error) error {
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return usagef("%v", bad)
	}
	return err
}
