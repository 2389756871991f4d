package programs

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/rls"
	"github.com/zeroae/zae-limiter-go/cmd/internal/server"
)

type serveOptions struct {
	*kit.Connection
	kit.Settings
	listen, grpc, metrics string // addresses
	rules, tokens         string // files
	tls                   listen.TLSFiles
	hosts                 []string
	insecure, escrow      bool
	reflection            bool
	dashboard             serveDashboard
	server                server.Options
	http                  listen.Options
	drain                 time.Duration
}

func newServe(c *kit.Console) *cobra.Command {
	o := &serveOptions{Connection: &kit.Connection{Console: c}, Settings: kit.Settings{Prefix: "ZAEL_SERVE_"}}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve limits over HTTP and gRPC",
		Long: `Serve the limits of a store to programs in any language: HTTP with JSON, and
with --grpc-listen the rate limit service of Envoy. The server describes itself
at /openapi.json, and answers probes at /healthz and /readyz, and over gRPC with
grpc.health.v1.

An address that other machines can reach needs --tokens, --tls-cert and
--tls-key, or --insecure. A bearer token lets its holder acquire, read, or both
(admin), in one namespace; "zae-limiter serve token" makes one. Without
--tokens, every caller has the role admin in --namespace. Changes of the files
of tokens, rules and certificates apply within a second; a broken file changes
nothing.

A client settles its lease by another call. A lease that is not settled within
--lease-ttl is committed as it stands. An interrupt or SIGTERM refuses new
leases, waits for open ones up to half of --drain-timeout, commits the rest and
ends the program.

With --dashboard, people see the limits on a web page at /dashboard/, which asks
for a bearer token where there are --tokens.

Each flag can also come from the environment ($ZAEL_SERVE_LEASE_TTL) or from the
file of --config (lease_ttl: 5m); flags come first, then the environment.

` + kit.StoreHelp,
		Example: `  zae-limiter serve --store sqlite:limits.db
  zae-limiter serve --name my-app --listen :9235 --tokens tokens.yaml \
      --tls-cert cert.pem --tls-key key.pem
  zae-limiter serve --grpc-listen 127.0.0.1:8081 --rules envoy.yaml
  zae-limiter serve --dashboard --dashboard-write --tokens tokens.yaml`,
		Args:    kit.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return o.Apply(cmd) },
		RunE:    func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), o) },
	}

	o.addServe(cmd)
	cmd.AddCommand(newServeToken(c), kit.NewSettingsSchema(c, cmd), newServeRules(c))
	return cmd
}

// addServe adds the flags of the server. Its subcommands do not have them.
func (o *serveOptions) addServe(cmd *cobra.Command) {
	o.AddOwnNamespace(cmd)
	o.AddFile(cmd)

	const file = "file"
	o.listen = "127.0.0.1:9235"
	kit.AddFlag(cmd, &o.listen, "listen", "address", o.listen, "address of HTTP", kit.ParseAddress)
	kit.AddFlag(cmd, &o.grpc, "grpc-listen", "address", "",
		"address of gRPC, with Envoy's rate limit service; needs --rules", kit.ParseAddress)
	cmd.Flags().BoolVar(&o.reflection, "grpc-reflection", false,
		"let callers of gRPC with a token list its services, as grpcurl does")
	kit.AddFlag(cmd, &o.metrics, "metrics-listen", "address", "", "address of /metrics, without tokens or TLS",
		kit.ParseAddress)

	kit.AddFlag(cmd, &o.rules, "rules", file, "", "YAML file that maps Envoy's descriptors to entities and limits",
		parseText)
	kit.AddFlag(cmd, &o.tokens, "tokens", file, "",
		"YAML file of bearer tokens, hashed, with a role and a namespace each", parseText)

	kit.AddFlag(cmd, &o.tls.Cert, "tls-cert", file, "", "PEM file of the server's certificate", parseText)
	kit.AddFlag(cmd, &o.tls.Key, "tls-key", file, "", "PEM file of the certificate's key", parseText)
	kit.AddFlag(cmd, &o.tls.ClientCA, "tls-client-ca", file, "",
		"PEM file of authorities; clients must have a certificate of one", parseText)

	cmd.Flags().StringArrayVar(&o.hosts, "allowed-host", nil,
		"host `name` of the server, besides IP addresses and localhost; * for any; repeatable")
	cmd.Flags().BoolVar(&o.insecure, "insecure", false, "listen on any address, even without tokens and TLS")

	cmd.Flags().BoolVar(&o.escrow, "escrow", false,
		"hold tokens for a moment, so that most calls need no request to the store")

	o.dashboard.addFlags(cmd)
	o.addBounds(cmd)
}

// addBounds adds the flags that bound what clients can hold.
func (o *serveOptions) addBounds(cmd *cobra.Command) {
	addDefault(cmd, &o.server.MaxLeases, server.DefaultMaxLeases, "max-leases", "number",
		"open leases at a time; of several tokens, each has half", kit.ParseCount)
	addDefault(cmd, &o.server.LeaseTTL, server.DefaultLeaseTTL, "lease-ttl", "duration",
		"time until an open lease is committed", kit.ParseDuration)

	addDefault(cmd, &o.server.MaxKeys, server.DefaultMaxKeys, "max-keys", "number",
		"idempotency keys of a token at a time", kit.ParseCount)
	addDefault(cmd, &o.server.KeyTTL, server.DefaultKeyTTL, "key-ttl", "duration",
		"time for which the answer to a key is kept", kit.ParseDuration)

	addDefault(cmd, &o.server.MaxBody, server.DefaultMaxBody, "max-body", "number", "bytes of a request's body",
		parseBytes)
	addDefault(cmd, &o.server.Timeout, server.DefaultTimeout, "store-timeout", "duration",
		"time for a call of the store", kit.ParseDuration)

	addDefault(cmd, &o.server.MaxRequests, server.DefaultMaxRequests, "max-requests", "number",
		"requests at a time", kit.ParseCount)

	addDefault(cmd, &o.http.MaxConns, listen.DefaultMaxConns, "max-connections", "number",
		"connections at a time; more replace the idlest", kit.ParseCount)
	addDefault(cmd, &o.http.HeaderTimeout, listen.DefaultHeaderTimeout, "header-timeout", "duration",
		"time to receive the header of a request", kit.ParseDuration)
	addDefault(cmd, &o.http.ReadTimeout, listen.DefaultReadTimeout, "read-timeout", "duration",
		"time to receive a request", kit.ParseDuration)
	addDefault(cmd, &o.http.IdleTimeout, listen.DefaultIdleTimeout, "idle-timeout", "duration",
		"time between the requests of a connection", kit.ParseDuration)

	addDefault(cmd, &o.drain, listen.DefaultDrainTimeout, "drain-timeout", "duration",
		"time to end after an interrupt", kit.ParseDuration)
}

// addDefault adds a flag whose default the help shows.
func addDefault[T any](
	cmd *cobra.Command, target *T, fallback T, flag, kind, usage string, parse func(string) (T, error),
) {
	*target = fallback

	// A duration would be shown with its zero parts, such as 10m0s.
	shown := fmt.Sprint(fallback)
	if d, ok := any(fallback).(time.Duration); ok {
		shown = shortest(d)
	}
	kit.AddFlag(cmd, target, flag, kind, shown, usage, parse)
}

// shortest formats a duration without its zero parts: 10m.
func shortest(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	}
	return d.String()
}

func parseText(text string) (string, error) { return text, nil }

func parseBytes(text string) (int64, error) {
	n, err := kit.ParseCount(text)
	return int64(n), err
}

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
		c.Done("%s is valid", kit.FileName(file))
		return err
	}

	for _, p := range bad.Problems {
		c.Say("%s: %s", kit.FileName(file), p)
	}
	return fmt.Errorf("%s has %s", kit.FileName(file), kit.Count(len(bad.Problems), "problem"))
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
