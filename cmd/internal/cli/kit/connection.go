package kit

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

// DefaultNamespace is the namespace of a command without one.
const DefaultNamespace = "default"

// Environment variables that select a store and a namespace.
const (
	EnvStore     = "ZAEL_STORE"
	EnvStack     = "ZAEL_STACK"
	envNamespace = "ZAEL_NAMESPACE"
)

// Connection selects the store and the namespace of a command, by flags or
// environment variables.
type Connection struct {
	*Console
	Store, Name, Region, Endpoint, Namespace string
	Principal                                string
	// usesNamespace says that the command works in a namespace.
	usesNamespace bool
	// Temporary makes the command use a temporary file if no store is selected.
	Temporary bool
	// Selected is the cache of SelectStore.
	Selected *Store
}

// AddStore adds the flags of a store to a command and its subcommands.
func (conn *Connection) AddStore(cmd *cobra.Command) { conn.addStoreFlags(cmd.PersistentFlags()) }

func (conn *Connection) addStoreFlags(flags *pflag.FlagSet) {
	flags.StringVar(&conn.Store, "store", "", "store `URL`: sqlite:PATH, memory: or dynamodb:NAME")
	flags.StringVarP(&conn.Name, "name", "n", "", "DynamoDB table `name`, same as --store dynamodb:NAME")
	flags.StringVar(&conn.Region, "region", "", "AWS `region` of the table")
	flags.StringVar(&conn.Endpoint, "endpoint-url", "", "DynamoDB endpoint `URL`, in place of AWS")
}

// AddNamespace adds the flags of a store and of a namespace to a command and its
// subcommands.
func (conn *Connection) AddNamespace(cmd *cobra.Command) {
	conn.AddStore(cmd)
	conn.addNamespaceFlag(cmd, cmd.PersistentFlags())
}

// AddOwnNamespace adds the flags of a store and of a namespace to a command, but
// not to its subcommands.
func (conn *Connection) AddOwnNamespace(cmd *cobra.Command) {
	conn.addStoreFlags(cmd.Flags())
	conn.addNamespaceFlag(cmd, cmd.Flags())
}

func (conn *Connection) addNamespaceFlag(cmd *cobra.Command, flags *pflag.FlagSet) {
	conn.usesNamespace = true
	flags.StringVarP(&conn.Namespace, "namespace", "N", "",
		"`namespace` to work in (default $ZAEL_NAMESPACE, else default)")
	_ = cmd.RegisterFlagCompletionFunc("namespace", conn.CompleteNamespaces)
}

// AddPrincipal adds the flag --principal to a command that makes changes.
func (conn *Connection) AddPrincipal(cmd *cobra.Command) {
	AddFlag(cmd, &conn.Principal, "principal", "name", "",
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

// AddYes adds the flag --yes, which skips the confirmation.
func AddYes(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "do not ask for confirmation")
}

// SelectStore returns the store that the flags name, else the environment, else
// the embedded one, which it reports on stderr.
func (conn *Connection) SelectStore() (Store, error) {
	if conn.Selected != nil {
		return *conn.Selected, nil
	}
	s, err := conn.lookUpStore()
	if err != nil {
		return Store{}, err
	}

	if !s.Dynamo {
		for _, flag := range []struct{ name, value string }{{"region", conn.Region}, {"endpoint-url", conn.Endpoint}} {
			if flag.value != "" {
				return Store{}, Usagef("--%s is for a DynamoDB table, but the store is %s; name a table with --name",
					flag.name, s.Name)
			}
		}
	}

	if err := CheckEndpoint(conn.Endpoint); err != nil {
		return Store{}, err
	}

	conn.Selected = &s
	return s, nil
}

func (conn *Connection) lookUpStore() (Store, error) {
	switch {
	case conn.Store != "":
		if conn.Name != "" {
			conn.Warn("--name %s is ignored, since --store is given", conn.Name)
		}
		return StoreFrom("--store", conn.Store)
	case conn.Name != "":
		return tableStore(conn.Name), nil
	case os.Getenv(EnvStore) != "":
		return StoreFrom(EnvStore, os.Getenv(EnvStore))
	case os.Getenv(EnvStack) != "":
		return tableStore(os.Getenv(EnvStack)), nil
	}

	if conn.Temporary {
		return TemporaryStore(), nil
	}

	s, err := embeddedStore()
	if err == nil {
		conn.Say("using %s; --store chooses another", s.Name)
	}
	return s, err
}

// Location returns the store that was opened, for a message: "in
// sqlite:limits.db, namespace tenant-a".
func (conn *Connection) Location() string {
	place := "in " + conn.Selected.Name

	if at := conn.TableEndpoint(); at != "" && conn.Selected.Dynamo {
		place += " at " + at
	}

	if conn.usesNamespace && conn.NamespaceName() != DefaultNamespace {
		place += ", namespace " + conn.NamespaceName()
	}

	return place
}

// TableEndpoint returns the endpoint of DynamoDB, "" for AWS: the flag, else the
// variables that the SDK reads, the specific one first.
func (conn *Connection) TableEndpoint() string {
	if conn.Endpoint != "" || strings.EqualFold(os.Getenv(EnvIgnoreEndpoints), "true") {
		return conn.Endpoint
	}
	return cmp.Or(os.Getenv(EnvTableEndpoint), os.Getenv(envEndpoint))
}

// Suggestion returns a command to suggest, complete with the flags of the store
// and the namespace, so that it can be pasted. It names a table and its endpoint
// even if they come from the environment.
func (conn *Connection) Suggestion(words ...string) string {
	if conn.Namespace != "" {
		words = append(words, "--namespace", conn.Namespace)
	}
	return conn.storeSuggestion(words...)
}

// storeSuggestion returns a command to suggest with the flags of the store.
func (conn *Connection) storeSuggestion(words ...string) string {
	// A table and its endpoint may come from the environment of this program,
	// which a pasted command need not have.
	if s, err := conn.SelectStore(); err == nil && s.Dynamo {
		at := hint.Place{Region: conn.Region, Endpoint: conn.TableEndpoint()}
		return at.Command(append(words, "--name", strings.TrimPrefix(s.Name, TableScheme))...)
	}

	if conn.Store != "" {
		words = append(words, "--store", conn.Store)
	}
	return hint.Place{}.Command(words...)
}

// SuggestLimits replaces ErrNoLimits with a message that says how to set limits.
func (conn *Connection) SuggestLimits(err error, req limiter.Request) error {
	if !errors.Is(err, limiter.ErrNoLimits) {
		return err
	}
	return fmt.Errorf("%w, and --limit applies some to one call", conn.NoLimits(req.Entity, req.Resource))
}

// NoLimits returns the error of a bucket for which no level stores limits, and
// suggests a command that stores some.
func (conn *Connection) NoLimits(entity, resource string) error {
	return fmt.Errorf("there are no limits for entity %s and resource %s at any level; %s sets some",
		entity, resource, conn.Suggestion("resource", "set-defaults", resource, "-l", "rpm:100"))
}

// Mend adds to an error of a server the command with which its operator can set the
// missing limits. It leaves the error of a store in memory alone, since no command
// reaches the memory of another process.
func (conn *Connection) Mend(err error) error {
	missing, ok := errors.AsType[*hint.NoLimitsError](err)
	if s, failed := conn.SelectStore(); !ok || failed != nil || s.Name == MemoryStore {
		return err
	}

	at := *conn
	at.Namespace = cmp.Or(missing.Namespace, conn.Namespace)
	return at.NoLimits(missing.Entity, missing.Resource)
}

// UnsetSubject returns the resource or the model that err says is not set up, or "".
func UnsetSubject(err error) string {
	if missing, ok := errors.AsType[*hint.NoLimitsError](err); ok {
		return missing.Resource
	}
	if invalid, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return invalid.Value
	}
	return ""
}

// StoreFrom parses the URL of a store, which comes from source.
func StoreFrom(source, name string) (Store, error) {
	s, err := ParseStore(name)
	if err != nil {
		return Store{}, Usagef("invalid %s %q: %v", source, Clip(name), err)
	}
	return s, nil
}

// NamespaceName returns the name of the selected namespace.
func (conn *Connection) NamespaceName() string {
	return cmp.Or(conn.Namespace, os.Getenv(envNamespace), DefaultNamespace)
}

// Open opens the selected store. The caller closes it.
func (conn *Connection) Open(ctx context.Context, access Access) (limiter.Repository, error) {
	namespace := conn.NamespaceName()
	if err := (limiter.Namespace{Name: namespace}).Validate(); err != nil {
		return nil, Usagef("%v", err)
	}

	return conn.OpenAs(ctx, OpenOptions{Access: access, Namespace: namespace})
}

// OpenAs opens the selected store with options. The caller closes it.
func (conn *Connection) OpenAs(ctx context.Context, o OpenOptions) (limiter.Repository, error) {
	s, err := conn.SelectStore()
	if err != nil {
		return nil, err
	}
	return conn.OpenStore(ctx, s, o)
}

// OpenStore opens a store at the region and endpoint of the connection. The caller
// closes it.
func (conn *Connection) OpenStore(ctx context.Context, s Store, o OpenOptions) (limiter.Repository, error) {
	// The warning is for changes: a read of an empty memory loses nothing, and
	// a temporary store was asked for.
	if s.Name == MemoryStore && o.Access != Read && !conn.Temporary {
		conn.Warn("%s loses its data when this command ends", s.Name)
	}

	o.region, o.endpoint, o.timeout = conn.Region, conn.Endpoint, conn.Timeout
	repo, err := s.Open(ctx, o)
	// What is invalid here is a name from the command line or the environment.
	if Is[*limiter.InvalidError](err) {
		return nil, Usagef("%v", err)
	}
	return repo, err
}

// WithStore opens the selected store, calls do and closes the store.
func (conn *Connection) WithStore(
	ctx context.Context, access Access, do func(*limiter.RateLimiter, limiter.Repository) error,
) error {
	repo, err := conn.Open(ctx, access)
	if err != nil {
		return err
	}
	return conn.WithLimiter(repo, do)
}

// WithLimiter calls do with a limiter on repo and closes repo.
func (conn *Connection) WithLimiter(
	repo limiter.Repository, do func(*limiter.RateLimiter, limiter.Repository) error,
) (err error) {
	defer func() { err = errors.Join(err, repo.Close()) }()

	lim, err := limiter.New(repo, &limiter.Options{Now: conn.Now, Principal: conn.Author()})
	// Of these options, only the principal can be invalid.
	if err != nil {
		return Usagef("%v", err)
	}
	return do(lim, repo)
}

// Author returns the principal of changes: --principal, else the user's login. For
// a table in AWS without --principal it returns "", since the table itself looks
// up the caller's identity.
func (conn *Connection) Author() string {
	s, err := conn.SelectStore()

	if err == nil && s.Dynamo && conn.TableEndpoint() == "" {
		return conn.Principal
	}
	return cmp.Or(conn.Principal, login())
}

// login returns the name of the user, or "" if the audit trail does not accept it.
func login() string {
	u, err := user.Current()
	if err != nil || (limiter.Entity{ID: u.Username}).Validate() != nil {
		return ""
	}
	return u.Username
}

// NoUsage returns the message for an empty list. The usage of a table must be
// counted first.
func (conn *Connection) NoUsage() string {
	const nothing = "There is no such usage."
	if s, err := conn.SelectStore(); err == nil && s.Dynamo {
		return nothing + " The usage of a table is counted by " + conn.storeSuggestion("aggregate") +
			", or by the stack's function."
	}
	return nothing
}
