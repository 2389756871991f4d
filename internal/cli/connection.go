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

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/hint"
	"github.com/zeroae/zae-limiter-go/memory"
)

const (
	defaultNamespace = "default"
	envStore         = "ZAEL_STORE"
	envStack         = "ZAEL_STACK"
	envNamespace     = "ZAEL_NAMESPACE"
)

// connection is which store a command uses, and which namespace of it, as the
// flags say or the environment.
type connection struct {
	*console
	store, name, region, endpoint, namespace string
	principal                                string
	spaced                                   bool   // the command works in a namespace
	picked                                   *store // once it was chosen
}

// addStore gives a command, and those below it, the flags of a store.
func (conn *connection) addStore(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&conn.store, "store", "", "`url` of the store: sqlite:PATH, memory: or dynamodb:NAME")
	flags.StringVarP(&conn.name, "name", "n", "", "`name` of a DynamoDB table, as --store dynamodb:NAME")
	flags.StringVar(&conn.region, "region", "", "AWS `region` of the table")
	flags.StringVar(&conn.endpoint, "endpoint-url", "", "`url` of a DynamoDB to use instead of AWS")
}

// addNamespace gives a command, and those below it, the flags of a store and of
// a namespace.
func (conn *connection) addNamespace(cmd *cobra.Command) {
	conn.addStore(cmd)
	conn.spaced = true
	cmd.PersistentFlags().StringVarP(&conn.namespace, "namespace", "N", "", "`namespace` to work in (default $ZAEL_NAMESPACE, else default)")
	_ = cmd.RegisterFlagCompletionFunc("namespace", conn.completeNamespaces)
}

// addPrincipal gives a command that changes something a flag for who does so.
func (conn *connection) addPrincipal(cmd *cobra.Command) {
	addFlag(cmd, &conn.principal, "principal", "who", "", "who changes it, for the audit trail (default: the user's login; in AWS, the caller's identity)", parsePrincipal)
}

func parsePrincipal(name string) (string, error) {
	_, err := limiter.New(memory.New(nil), &limiter.Options{Principal: name})
	return name, err
}

// addYes gives a command that destroys something the flag to do so unasked.
func addYes(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "do not ask")
}

// chosen is the store that the flags name, else the environment, else the
// embedded one, of which people are told.
func (conn *connection) chosen() (store, error) {
	if conn.picked != nil {
		return *conn.picked, nil
	}
	s, err := conn.named()
	if err != nil {
		return store{}, err
	}
	if !s.dynamo {
		for _, flag := range []struct{ name, value string }{{"region", conn.region}, {"endpoint-url", conn.endpoint}} {
			if flag.value != "" {
				return store{}, usagef("--%s belongs to a DynamoDB table, but the store is %s; name a table with --name", flag.name, s.name)
			}
		}
	}
	if err := checkEndpoint(conn.endpoint); err != nil {
		return store{}, err
	}
	conn.picked = &s
	return s, nil
}

func (conn *connection) named() (store, error) {
	switch {
	case conn.store != "":
		if conn.name != "" {
			conn.warn("--name %s is not used, since --store says where", conn.name)
		}
		return storeFrom("--store", conn.store)
	case conn.name != "":
		return tableStore(conn.name), nil
	case os.Getenv(envStore) != "":
		return storeFrom(envStore, os.Getenv(envStore))
	case os.Getenv(envStack) != "":
		return tableStore(os.Getenv(envStack)), nil
	}
	s, err := embeddedStore()
	if err == nil {
		conn.say("using %s; --store chooses another", s.name)
	}
	return s, err
}

// where names the store that was opened, for a sentence about what was stored
// there: "in sqlite:limits.db, namespace tenant-a".
func (conn *connection) where() string {
	place := "in " + conn.picked.name
	if at := conn.tableEndpoint(); at != "" && conn.picked.dynamo {
		place += " at " + at
	}
	if conn.spaced && conn.space() != defaultNamespace {
		place += ", namespace " + conn.space()
	}
	return place
}

// tableEndpoint is the endpoint of tables, "" for that of AWS: of the flag, else of
// the variables that the SDK reads, the one for DynamoDB first.
func (conn *connection) tableEndpoint() string {
	if conn.endpoint != "" || strings.EqualFold(os.Getenv(envIgnoreEndpoints), "true") {
		return conn.endpoint
	}
	return cmp.Or(os.Getenv(envTableEndpoint), os.Getenv(envEndpoint))
}

// suggestion is a command that this one suggests, in the same store and namespace,
// so that it can be pasted as it is. A table is named with its endpoint, also
// where both come from the environment.
func (conn *connection) suggestion(words ...string) string {
	if conn.namespace != "" {
		words = append(words, "--namespace", conn.namespace)
	}
	return conn.inStore(words...)
}

// inStore is suggestion for one that is about all namespaces.
func (conn *connection) inStore(words ...string) string {
	if s, err := conn.chosen(); err == nil && s.dynamo {
		at := hint.Place{Region: conn.region, Endpoint: conn.tableEndpoint()}
		return at.Command(append(words, "--name", strings.TrimPrefix(s.name, tableScheme))...)
	}
	if conn.store != "" {
		words = append(words, "--store", conn.store)
	}
	return hint.Place{}.Command(words...)
}

// unlimited says of a request that no limits are about it how to give it some.
func (conn *connection) unlimited(err error, req limiter.Request) error {
	if !errors.Is(err, limiter.ErrNoLimits) {
		return err
	}
	return fmt.Errorf("there are no limits for entity %s and resource %s at any level; %s sets some, and --limit gives some for once",
		req.Entity, req.Resource, conn.suggestion("resource", "set-defaults", req.Resource, "-l", "rpm:100"))
}

// storeFrom reads a store that source names.
func storeFrom(source, name string) (store, error) {
	s, err := parseStore(name)
	if err != nil {
		return store{}, usagef("%s is %q, but %v", source, clip(name), err)
	}
	return s, nil
}

// space is the name of the namespace.
func (conn *connection) space() string {
	return cmp.Or(conn.namespace, os.Getenv(envNamespace), defaultNamespace)
}

// open opens the chosen store. The caller closes it.
func (conn *connection) open(ctx context.Context, access access) (limiter.Repository, error) {
	namespace := conn.space()
	if err := (limiter.Namespace{Name: namespace}).Validate(); err != nil {
		return nil, usagef("%v", err)
	}
	return conn.openAs(ctx, opening{access: access, namespace: namespace})
}

func (conn *connection) openAs(ctx context.Context, o opening) (limiter.Repository, error) {
	s, err := conn.chosen()
	if err != nil {
		return nil, err
	}
	return conn.openStore(ctx, s, o)
}

func (conn *connection) openStore(ctx context.Context, s store, o opening) (limiter.Repository, error) {
	if s.name == memoryStore && o.access != reads {
		conn.warn("%s is forgotten when this command ends", s.name)
	}
	o.region, o.endpoint = conn.region, conn.endpoint
	repo, err := s.open(ctx, o)
	if is[*limiter.InvalidError](err) { // about what the command line calls it
		return nil, usagef("%v", err)
	}
	return repo, err
}

// with lends the chosen store to what a command does.
func (conn *connection) with(ctx context.Context, access access, do func(*limiter.RateLimiter, limiter.Repository) error) error {
	repo, err := conn.open(ctx, access)
	if err != nil {
		return err
	}
	return conn.lend(repo, do)
}

func (conn *connection) lend(repo limiter.Repository, do func(*limiter.RateLimiter, limiter.Repository) error) (err error) {
	defer func() { err = errors.Join(err, repo.Close()) }()
	lim, err := limiter.New(repo, &limiter.Options{Now: conn.now, Principal: conn.author()})
	if err != nil {
		return usagef("%v", err)
	}
	return do(lim, repo)
}

// author signs changes: --principal, or the user's login. In an account of AWS it
// is the caller's identity there, which the table finds out by itself.
func (conn *connection) author() string {
	s, err := conn.chosen()
	if err == nil && s.dynamo && conn.tableEndpoint() == "" {
		return conn.principal
	}
	return cmp.Or(conn.principal, login())
}

// login is who runs the program, "" if that is no name for an audit trail.
func login() string {
	u, err := user.Current()
	if err != nil || (limiter.Entity{ID: u.Username}).Validate() != nil {
		return ""
	}
	return u.Username
}
