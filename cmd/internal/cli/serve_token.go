package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/server"
)

type serveTokenOptions struct {
	*console
	name, namespace string
	role            server.Role
}

func newServeToken(c *console) *cobra.Command {
	o := serveTokenOptions{console: c, role: server.RoleAcquire, namespace: defaultNamespace}
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Make a bearer token for the server",
		Long: `Make a bearer token for the server. It is printed on stderr, once, for the
client that sends it as "Authorization: Bearer TOKEN". Its entry for the file of
--tokens is printed on stdout; it holds only the hash.`,
		Example: `  (echo tokens:; zae-limiter serve token gateway) > tokens.yaml
  zae-limiter serve token dashboard --role read >> tokens.yaml`,
		Args: arguments(argument{"NAME", func(s string) error {
			o.name = s
			if bad, ok := errors.AsType[*limiter.InvalidError](limiter.Entity{ID: s}.Validate()); ok {
				return fmt.Errorf("invalid NAME %q: %s", clip(s), bad.Reason)
			}
			return nil
		}}),
		RunE: func(*cobra.Command, []string) error { return runServeToken(o) },
	}

	roles := []server.Role{server.RoleAcquire, server.RoleRead, server.RoleAdmin}
	addFlag(cmd, &o.role, "role", "role", string(o.role), "what the token allows: acquire, read or admin",
		oneOf(roles...))
	_ = cmd.RegisterFlagCompletionFunc("role", completeWords(roles...))

	addFlagP(cmd, &o.namespace, "namespace", "N", "name", o.namespace, "namespace of the token",
		func(text string) (string, error) {
			return text, limiter.Namespace{Name: text}.Validate()
		})
	return cmd
}

func runServeToken(o serveTokenOptions) error {
	token, hash := server.NewToken()
	if _, err := fmt.Fprintf(
		o.out, "  - name: %q\n    sha256: %s\n    role: %s\n    namespace: %q\n", o.name, hash, o.role,
		o.namespace,
	); err != nil {
		return err
	}

	// The token goes to stderr, since stdout is appended to the file of tokens.
	o.say("The token of %s, which is not stored anywhere: %s", o.name, token)
	return nil
}
