package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/server"
)

type serveTokenOptions struct {
	*kit.Console
	name, namespace string
	role            server.Role
}

func newServeToken(c *kit.Console) *cobra.Command {
	o := serveTokenOptions{Console: c, role: server.RoleAcquire, namespace: kit.DefaultNamespace}
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Make a bearer token for the server",
		Long: `Make a bearer token for the server. It is printed on stderr, once, for the
client that sends it as "Authorization: Bearer TOKEN". Its entry for the file of
--tokens is printed on stdout; it holds only the hash.`,
		Example: `  (echo tokens:; zae-limiter serve token gateway) > tokens.yaml
  zae-limiter serve token dashboard --role read >> tokens.yaml`,
		Args: kit.Arguments(kit.Argument{Name: "NAME", Set: func(s string) error {
			o.name = s
			if bad, ok := errors.AsType[*limiter.InvalidError](limiter.Entity{ID: s}.Validate()); ok {
				return fmt.Errorf("invalid NAME %q: %s", kit.Clip(s), bad.Reason)
			}
			return nil
		}}),
		RunE: func(*cobra.Command, []string) error { return runServeToken(o) },
	}

	roles := []server.Role{server.RoleAcquire, server.RoleRead, server.RoleAdmin}
	kit.AddFlag(cmd, &o.role, "role", "role", string(o.role), "what the token allows: acquire, read or admin",
		kit.OneOf(roles...))
	_ = cmd.RegisterFlagCompletionFunc("role", kit.CompleteWords(roles...))

	kit.AddFlagP(cmd, &o.namespace, "namespace", "N", "name", o.namespace, "namespace of the token",
		func(text string) (string, error) {
			return text, limiter.Namespace{Name: text}.Validate()
		})
	return cmd
}

func runServeToken(o serveTokenOptions) error {
	token, hash := server.NewToken()
	if _, err := fmt.Fprintf(
		o.Out, "  - name: %q\n    sha256: %s\n    role: %s\n    namespace: %q\n", o.name, hash, o.role,
		o.namespace,
	); err != nil {
		return err
	}

	// The token goes to stderr, since stdout is appended to the file of tokens.
	o.Say("The token of %s, which is not stored anywhere: %s", o.name, token)
	return nil
}
