package kit

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
	"github.com/zeroae/zae-limiter-go/cmd/internal/hint"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

// StackHelp describes in the help how commands find their stack.
const StackHelp = `The stack is --name, else the table of $ZAEL_STORE (dynamodb:NAME), else
$ZAEL_STACK, else "zae-limiter" unless $ZAEL_STORE is a store without a stack.
A stack has the name of its table.`

// TableScheme is the prefix of a store that is a DynamoDB table.
const TableScheme = "dynamodb:"

// Stack selects the stack of a command, by flags or environment
// variables.
type Stack struct {
	*Console
	Name, Region, Endpoint string
}

// AddTo adds the flags of a stack to a command.
func (s *Stack) AddTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.Name, "name", "n", "", "`name` of the stack and its table")
	s.AddPlace(cmd)
}

// AddPlace adds the flags of the region and the endpoint to a command.
func (s *Stack) AddPlace(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.Region, "region", "", "AWS `region`")
	cmd.Flags().StringVar(&s.Endpoint, "endpoint-url", "", "`URL` of an emulator, in place of AWS")
}

// StackName returns the name of the stack, which is the table that data commands
// use. An environment with an invalid store, or one without a stack, is an error,
// since the default would be another stack.
func (s *Stack) StackName() (string, error) {
	url := os.Getenv(EnvStore)
	if s.Name != "" || url == "" {
		return dynamo.TableName(s.Name), nil
	}

	chosen, err := StoreFrom(EnvStore, url)
	switch {
	case err != nil:
		return "", err
	case chosen.Dynamo:
		return strings.TrimPrefix(chosen.Name, TableScheme), nil
	case os.Getenv(EnvStack) != "":
		return dynamo.TableName(""), nil
	}

	kind := "a file"
	if chosen.Name == MemoryStore {
		kind = "memory"
	}
	return "", Usagef("the store is %s (%s is %q), which has no stack; name a stack with --name", kind, EnvStore,
		Clip(url))
}

// Place returns the region and the endpoint for commands to suggest.
func (s *Stack) Place() hint.Place {
	return hint.Place{Region: s.Region, Endpoint: cmp.Or(s.Endpoint, os.Getenv(envEndpoint))}
}

// SuggestStore prints the line that makes later commands use a new table, unless
// they do already.
func (s *Stack) SuggestStore(name string) {
	store, at := TableScheme+name, s.Place()
	chosen := cmp.Or(os.Getenv(EnvStore), TableScheme+os.Getenv(EnvStack))
	if chosen == store && s.Region == "" && s.Endpoint == "" {
		return
	}

	words := []string{"export", EnvStore + "=" + store}
	if at.Region != "" {
		words = append(words, EnvRegion+"="+at.Region)
	}
	if at.Endpoint != "" {
		words = append(words, envEndpoint+"="+at.Endpoint)
	}

	s.Say("To use it in later commands, run:")
	s.Say("  %s", hint.Shell(words...))
}

// Environment variables that the AWS SDK reads.
const (
	EnvRegion          = "AWS_REGION"
	envEndpoint        = "AWS_ENDPOINT_URL"
	EnvTableEndpoint   = "AWS_ENDPOINT_URL_DYNAMODB"
	EnvIgnoreEndpoints = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
)

// Options returns the options for calls of infra.
func (s *Stack) Options() (infra.Options, error) {
	if err := s.CheckPlace(); err != nil {
		return infra.Options{}, err
	}
	return infra.Options{
		Dynamo:  dynamo.Options{Region: s.Region, Endpoint: s.Endpoint, Timeout: TableTimeout},
		Version: s.Version,
		Event:   s.event, Building: s.Building,
	}, nil
}

// Building reports that the functions' code is being compiled, and when it is
// done.
func (c *Console) Building(architecture string) (done func(error)) {
	began := time.Now()
	c.Say("  building the functions' code for %s with Go; this may take minutes", architecture)
	stop := c.Progress(func() string { return "building: " + tty.Duration(time.Since(began).Truncate(time.Second)) })

	return func(err error) {
		stop()
		if err == nil {
			c.Say("  built in %s", tty.Duration(time.Since(began)))
		}
	}
}

// Target returns the name of the stack and the options for calls about it.
func (s *Stack) Target() (name string, opts infra.Options, err error) {
	if opts, err = s.Options(); err == nil {
		name, err = s.StackName()
	}
	return name, opts, err
}

// CheckPlace validates the region and the endpoint.
func (s *Stack) CheckPlace() error {
	if strings.Trim(s.Region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return Usagef("invalid --region %q: must be a region such as us-east-1", Clip(s.Region))
	}
	return CheckEndpoint(s.Endpoint)
}

// CheckEndpoint validates the URL of an endpoint.
func CheckEndpoint(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return Usagef("invalid --endpoint-url %q: must be a URL such as http://localhost:8000", Clip(endpoint))
	}
	return nil
}

// event reports an event of the stack.
func (s *Stack) event(e infra.Event) {
	line := e.Time.Local().Format("15:04:05") + "  " + e.Status + "  " + e.Resource + " (" + e.Type + ")"

	// Events of other states have reasons that say nothing, such as "User
	// Initiated".
	if e.Reason != "" && strings.HasSuffix(e.Status, "FAILED") {
		line += ": " + e.Reason
	}
	s.Say("  %s", line)
}

// ConfirmChanges returns a function that shows the changes of an update and asks
// for confirmation, unless yes is set. Without a terminal to ask on, only
// destructive changes need yes.
func (s *Stack) ConfirmChanges(ctx context.Context, name string, yes bool) func([]infra.Change) error {
	return func(changes []infra.Change) error {
		for _, c := range changes {
			s.Say("  %s", ChangeLine(c))
		}

		if yes || !s.CanAsk && !slices.ContainsFunc(changes, isDestructive) {
			return nil
		}
		return s.Ask(ctx, fmt.Sprintf("Make %s to stack %s?", Count(len(changes), "change"), name))
	}
}

// isDestructive reports whether a change may lose data. Only an addition, and a
// modification that surely replaces nothing, do not.
func isDestructive(c infra.Change) bool {
	return c.Action != "Add" && (c.Action != "Modify" || c.Replacement != "False")
}

// ChangeLine returns a change of a stack on one line.
func ChangeLine(c infra.Change) string {
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

// StackError turns an *InvalidError into a usage error.
func StackError(err error) error {
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return Usagef("%s", hint.Part(bad.Error(), err))
	}
	return err
}

// RequireName rejects a command line without the name of a stack, unless the
// environment names exactly one.
func (s *Stack) RequireName(name string) error {
	stack, store := os.Getenv(EnvStack), os.Getenv(EnvStore)
	// StackName silently prefers ZAEL_STORE to ZAEL_STACK. A deletion must not
	// guess which of them the user means.
	switch isTable := strings.HasPrefix(store, TableScheme); {
	case s.Name != "":
		return nil
	case stack == "" && !isTable:
		return Usagef("no stack is named; give --name or set %s", EnvStack)
	case stack != "" && isTable && stack != name:
		return Usagef("%s is %s, but %s is %s; give --name", EnvStore, store, EnvStack, stack)
	}
	return nil
}

// StackState returns the status of a stack, coloured by its health.
func (c *Console) StackState(f infra.StackSummary) Cell {
	state := Text(f.Status)
	switch {
	case f.Failed():
		state.paint = c.Style.Red
	case f.InProgress():
		state.paint = c.Style.Yellow
	case f.Healthy():
		state.paint = c.Style.Green
	}
	return state
}
