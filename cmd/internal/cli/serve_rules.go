package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/rls"
)

func newServeRules(c *kit.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rules", Short: "Check the rules for Envoy", Args: kit.RequireKnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Long: `Check the file of "zae-limiter serve --rules", which maps the descriptors of
Envoy to entities, resources and amounts:

    rules:
      - match: {api_key: "*", model: "*"}
        entity: "key-{api_key|hash}"
        resource: "{model}"
        consume: {rpm: 1}`,
	}
	cmd.AddCommand(newServeRulesValidate(c), newServeRulesSchema(c))
	return cmd
}

func newServeRulesValidate(c *kit.Console) *cobra.Command {
	var file string
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check rules without a store",
		Long: `Check rules and report every problem with its line on stderr. The exit code is 1
if there is a problem. FILE is a file of rules, or - for stdin.`,
		Example: "  zae-limiter serve rules validate rules.yaml",
		Args: kit.Arguments(kit.Argument{Name: "FILE", Set: func(s string) error {
			if file = s; s == "" {
				return errors.New("FILE is empty; give the path of a file of rules, or - for stdin")
			}
			return nil
		}}),
		ValidArgsFunction: kit.CompleteManifest,
		RunE:              func(*cobra.Command, []string) error { return runServeRulesValidate(c, file) },
	}
}

func runServeRulesValidate(c *kit.Console, file string) error {
	data, err := kit.ReadFile(file, c.In)
	if err != nil {
		return kit.Usagef("%v", err)
	}

	_, err = rls.ParseRules(data)
	bad, ok := errors.AsType[*rls.RulesError](err)
	if !ok {
		c.Done("%s is valid", file)
		return err
	}

	for _, p := range bad.Problems {
		c.Say("%s: %s", file, p)
	}
	return fmt.Errorf("%s has %s", file, kit.Count(len(bad.Problems), "problem"))
}

func newServeRulesSchema(c *kit.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of rules",
		Long:    "Print the JSON Schema of a file of rules, with which editors check and complete\nit.",
		Example: "  zae-limiter serve rules schema > rules.schema.json",
		Args:    kit.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(c.Out, rls.Schema())
			return err
		},
	}
}
