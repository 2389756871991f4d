package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/hint"
	"github.com/zeroae/zae-limiter-go/memory"
)

const (
	defaultNamespace = "default"
	envStore         = "ZAEL_STORE"
	envStack         = "ZAEL_STACK"
	envNamespace     = "ZAEL_NAMESPACE"
)

// connection selects the store and the namespace of a command, by flags or
// environment variables.
type connection struct {
	*console
	store, name, region, endpoint, namespace string
	principal                                string
	// usesNamespace says that the command works in a namespace.
	usesNamespace bool
	// temporary makes the command use a temporary file if no store is selected.
	temporary bool
	// selected is the cache of selectStore.
	selected *store
}

// addStore adds the flags of a store to a command and its subcommands.
func (conn *connection) addStore(cmd *cobra.Command) { conn.addStoreFlags(cmd.PersistentFlags()) }

func (conn *connection) addStoreFlags(flags *pflag.FlagSet) {
	flags.StringVar(&conn.store, "store", "", "store `URL`: sqlite:PATH, memory: or dynamodb:NAME")
	flags.StringVarP(&conn.name, "name", "n", "", "DynamoDB table `name`, same as --store dynamodb:NAME")
	flags.StringVar(&conn.region, "region", "", "AWS `region` of the table")
	flags.StringVar(&conn.endpoint, "endpoint-url", "", "DynamoDB endpoint `URL`, in place of AWS")
}

// addNamespace adds the flags of a store and of a namespace to a command and its
// subcommands.
func (conn *connection) addNamespace(cmd *cobra.Command) {
	conn.addStore(cmd)
	conn.addNamespaceFlag(cmd, cmd.PersistentFlags())
}

// addOwnNamespace adds the flags of a store and of a namespace to a command, but
// not to its subcommands.
func (conn *connection) addOwnNamespace(cmd *cobra.Command) {
	conn.addStoreFlags(cmd.Flags())
	conn.addNamespaceFlag(cmd, cmd.Flags())
}

func (conn *connection) addNamespaceFlag(cmd *cobra.Command, flags *pflag.FlagSet) {
	conn.usesNamespace = true
	flags.StringVarP(&conn.namespace, "namespace", "N", "",
		"`namespace` to work in (default $ZAEL_NAMESPACE, else default)")
	_ = cmd.RegisterFlagCompletionFunc("namespace", conn.completeNamespaces)
}

// addPrincipal adds the flag --principal to a command that makes changes.
func (conn *connection) addPrincipal(cmd *cobra.Command) {
	addFlag(cmd, &conn.principal, "principal", "name", "",
		"author of the change in the audit trail (default: the user's login; in AWS, the caller's identity)",
		parsePrincipal)
}

func parsePrincipal(name string) (string, error) {
	_, err := limiter.New(memory.New(nil), &limiter.Options{Principal: name})
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return "", errors.New(bad.Reason)
	}
	return name, err
}

// addYes adds the flag --yes, which skips the confirmation.
func addYes(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "do not ask for confirmation")
}

// selectStore returns the store that the flags name, else the environment, else
// the embedded one, which it reports on stderr.
func (conn *connection) selectStore() (store, error) {
	if conn.selected != nil {
		return *conn.selected, nil
	}
	s, err := conn.lookUpStore()
	if err != nil {
		return store{}, err
	}

	if !s.dynamo {
		for _, flag := range []struct{ name, value string }{{"region", conn.region}, {"endpoint-url", conn.endpoint}} {
			if flag.value != "" {
				return store{}, usagef("--%s is for a DynamoDB table, but the store is %s; name a table with --name",
					flag.name, s.name)
			}
		}
	}

	if err := checkEndpoint(conn.endpoint); err != nil {
		return store{}, err
	}

	conn.selected = &s
	return s, nil
}

func (conn *connection) lookUpStore() (store, error) {
	switch {
	case conn.store != "":
		if conn.name != "" {
			conn.warn("--name %s is ignored, since --store is given", conn.name)
		}
		return storeFrom("--store", conn.store)
	case conn.name != "":
		return tableStore(conn.name), nil
	case os.Getenv(envStore) != "":
		return storeFrom(envStore, os.Getenv(envStore))
	case os.Getenv(envStack) != "":
		return tableStore(os.Getenv(envStack)), nil
	}

	if conn.temporary {
		return temporaryStore(), nil
	}

	s, err := embeddedStore()
	if err == nil {
		conn.say("using %s; --store chooses another", s.name)
	}
	return s, err
}

// location returns the store that was opened, for a message: "in
// sqlite:limits.db, namespace tenant-a".
func (conn *connection) location() string {
	place := "in " + conn.selected.name

	if at := conn.tableEndpoint(); at != "" && conn.selected.dynamo {
		place += " at " + at
	}

	if conn.usesNamespace && conn.namespaceName() != defaultNamespace {
		place += ", namespace " + conn.namespaceName()
	}

	return place
}

// tableEndpoint returns the endpoint of DynamoDB, "" for AWS: the flag, else the
// variables that the SDK reads, the specific one first.
func (conn *connection) tableEndpoint() string {
	if conn.endpoint != "" || strings.EqualFold(os.Getenv(envIgnoreEndpoints), "true") {
		return conn.endpoint
	}
	return cmp.Or(os.Getenv(envTableEndpoint), os.Getenv(envEndpoint))
}

// suggestion returns a command to suggest, complete with the flags of the store
// and the namespace, so that it can be pasted. It names a table and its endpoint
// even if they come from the environment.
func (conn *connection) suggestion(words ...string) string {
	if conn.namespace != "" {
		words = append(words, "--namespace", conn.namespace)
	}
	return conn.storeSuggestion(words...)
}

// storeSuggestion returns a command to suggest with the flags of the store.
func (conn *connection) storeSuggestion(words ...string) string {
	// A table and its endpoint may come from the environment of this program,
	// which a pasted command need not have.
	if s, err := conn.selectStore(); err == nil && s.dynamo {
		at := hint.Place{Region: conn.region, Endpoint: conn.tableEndpoint()}
		return at.Command(append(words, "--name", strings.TrimPrefix(s.name, tableScheme))...)
	}

	if conn.store != "" {
		words = append(words, "--store", conn.store)
	}
	return hint.Place{}.Command(words...)
}

// suggestLimits replaces ErrNoLimits with a message that says how to set limits.
func (conn *connection) suggestLimits(err error, req limiter.Request) error {
	if !errors.Is(err, limiter.ErrNoLimits) {
		return err
	}
	return fmt.Errorf("%w, and --limit applies some to one call", conn.noLimits(req.Entity, req.Resource))
}

// noLimits returns the error of a bucket for which no level stores limits, and
// suggests a command that stores some.
func (conn *connection) noLimits(entity, resource string) error {
	return fmt.Errorf("there are no limits for entity %s and resource %s at any level; %s sets some",
		entity, resource, conn.suggestion("resource", "set-defaults", resource, "-l", "rpm:100"))
}

// mend adds to an error of a server the command with which its operator can set the
// missing limits. It leaves the error of a store in memory alone, since no command
// reaches the memory of another process.
func (conn *connection) mend(err error) error {
	missing, ok := errors.AsType[*hint.NoLimitsError](err)
	if s, failed := conn.selectStore(); !ok || failed != nil || s.name == memoryStore {
		return err
	}

	at := *conn
	at.namespace = cmp.Or(missing.Namespace, conn.namespace)
	return at.noLimits(missing.Entity, missing.Resource)
}

// storeFrom parses the URL of a store, which comes from source.
func storeFrom(source, name string) (store, error) {
	s, err := parseStore(name)
	if err != nil {
		return store{}, usagef("invalid %s %q: %v", source, clip(name), err)
	}
	return s, nil
}

// namespaceName returns the name of the selected namespace.
func (conn *connection) namespaceName() string {
	return cmp.Or(conn.namespace, os.Getenv(envNamespace), defaultNamespace)
}

// open opens the selected store. The caller closes it.
func (conn *connection) open(ctx context.Context, access access) (limiter.Repository, error) {
	namespace := conn.namespaceName()
	if err := (limiter.Namespace{Name: namespace}).Validate(); err != nil {
		return nil, usagef("%v", err)
	}

	return conn.openAs(ctx, openOptions{access: access, namespace: namespace})
}

func (conn *connection) openAs(ctx context.Context, o openOptions) (limiter.Repository, error) {
	s, err := conn.selectStore()
	if err != nil {
		return nil, err
	}
	return conn.openStore(ctx, s, o)
}

func (conn *connection) openStore(ctx context.Context, s store, o openOptions) (limiter.Repository, error) {
	// The warning is for changes: a read of an empty memory loses nothing, and
	// a temporary store was asked for.
	if s.name == memoryStore && o.access != accessRead && !conn.temporary {
		conn.warn("%s loses its data when this command ends", s.name)
	}

	o.region, o.endpoint, o.timeout = conn.region, conn.endpoint, conn.timeout
	repo, err := s.open(ctx, o)
	// What is invalid here is a name from the command line or the environment.
	if is[*limiter.InvalidError](err) {
		return nil, usagef("%v", err)
	}
	return repo, err
}

// withStore opens the selected store, calls do and closes the store.
func (conn *connection) withStore(
	ctx context.Context, access access, do func(*limiter.RateLimiter, limiter.Repository) error,
) error {
	repo, err := conn.open(ctx, access)
	if err != nil {
		return err
	}
	return conn.withLimiter(repo, do)
}

// withLimiter calls do with a limiter on repo and closes repo.
func (conn *connection) withLimiter(
	repo limiter.Repository, do func(*limiter.RateLimiter, limiter.Repository) error,
) (err error) {
	defer func() { err = errors.Join(err, repo.Close()) }()

	lim, err := limiter.New(repo, &limiter.Options{Now: conn.now, Principal: conn.author()})
	// Of these options, only the principal can be invalid.
	if err != nil {
		return usagef("%v", err)
	}
	return do(lim, repo)
}

// author returns the principal of changes: --principal, else the user's login. For
// a table in AWS without --principal it returns "", since the table itself looks
// up the caller's identity.
func (conn *connection) author() string {
	s, err := conn.selectStore()

	if err == nil && s.dynamo && conn.tableEndpoint() == "" {
		return conn.principal
	}
	return cmp.Or(conn.principal, login())
}

// login returns the name of the user, or "" if the audit trail does not accept it.
func login() string {
	u, err := user.Current()
	if err != nil || (limiter.Entity{ID: u.Username}).Validate() != nil {
		return ""
	}
	return u.Username
}
