package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/infra"
)

// stackHelp is shown with every command about a stack.
const stackHelp = `The stack is that of --name, else $ZAEL_STACK, else "zae-limiter". It has the
name of its table.`

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

// chosen is the name of the stack.
func (s *stackConnection) chosen() string { return dynamo.TableName(s.name) }

// options are those of every call about a stack.
func (s *stackConnection) options() (infra.Options, error) {
	if err := s.checkPlace(); err != nil {
		return infra.Options{}, err
	}
	return infra.Options{
		Dynamo:  dynamo.Options{Region: s.region, Endpoint: s.endpoint, Timeout: tableTimeout},
		Version: thisBuild().Version,
		Event:   s.event,
	}, nil
}

// target is the stack, and how to reach it.
func (s *stackConnection) target() (name string, opts infra.Options, err error) {
	opts, err = s.options()
	return s.chosen(), opts, err
}

// checkPlace judges where a stack is said to be.
func (s *stackConnection) checkPlace() error {
	if strings.Trim(s.region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return usagef("--region is %q, but it has to be a region such as us-east-1", s.region)
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
		return usagef("--endpoint-url is %q, but it has to be an address such as http://localhost:8000", endpoint)
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
