package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// SchemaVersion is the schema version that this package reads and writes.
const SchemaVersion = schemaVersion

const (
	defaultName      = "zae-limiter"
	defaultNamespace = "default"
	defaultCacheTTL  = 60 * time.Second
	defaultImages    = 100_000
	// The entity, its switches, its limits, and its limits for the resource.
	factsPerImage = 4
	sharedFacts   = 10_000

	envName, envNamespace = "ZAEL_STACK", "ZAEL_NAMESPACE"
)

// Connect opens a repository on an existing table. It writes nothing. An empty
// name means the value of the environment variable ZAEL_STACK, or "zae-limiter";
// an empty namespace means the value of ZAEL_NAMESPACE, or "default".
//
// The namespace "_" stands for the table itself and needs no registration. Its
// repository supports the namespace methods, Version, Ping and Close. It holds
// no data, so every other method returns limiter.ErrNotFound.
//
// If the date of the reply says that the machine's clock is off by more than
// Options.ClockGuard, Connect waits about a second for another date, unless ctx
// ends soon.
//
// Connect returns limiter.ErrNotFound if the table or the namespace is missing,
// with the command that creates it; *limiter.VersionError if the table has a
// newer version or belongs to another program, or if the namespace has buckets of
// Python's zae-limiter 0.10.1 or newer; *limiter.InvalidError for an
// invalid name or option; *limiter.UnavailableError if AWS is unreachable or
// denies access; and the error of a cancelled context.
func Connect(ctx context.Context, name string, opts *Options) (*Repository, error) {
	return connect(ctx, name, opts, time.Now)
}

// connect does what Connect does, on a machine with the given clock.
func connect(ctx context.Context, name string, opts *Options, clock func() time.Time) (*Repository, error) {
	s, err := newStore(ctx, "connect", name, opts)
	if err != nil {
		return nil, err
	}

	s.clock, s.begun = clock, clock()
	namespace := namespaceName(opts)

	found, err := s.getAll(ctx, []key{versionKey(), namespaceKey(namespace)})
	if err != nil {
		return nil, s.failure(ctx, "connect", err)
	}

	if err := s.checkVersion(found[versionKey()]); err != nil {
		return nil, err
	}

	s.settleClock(ctx)

	if namespace == reservedNamespace {
		return &Repository{store: s, ns: reservedNamespace, name: reservedNamespace}, nil
	}

	forward := found[namespaceKey(namespace)]
	if !isActive(forward) {
		register := s.remedy(remedy.RegisterNamespace, namespace)
		return nil, remedy.With(fmt.Errorf("namespace %q: %w in table %q; %v creates it", namespace,
			limiter.ErrNotFound, s.table, register), register)
	}

	// A newer release of Python's library may leave the version record alone.
	// Its buckets then are the only trace.
	ns := forward.text(attrNamespaceID)
	if err := s.checkLayout(ctx, ns, namespace); err != nil {
		return nil, s.failure(ctx, "connect", err)
	}

	return &Repository{store: s, ns: ns, name: namespace}, nil
}

// TableName returns the table that Connect uses: the given name, or the value of
// the environment variable ZAEL_STACK, or "zae-limiter".
func TableName(given string) string { return cmp.Or(given, os.Getenv(envName), defaultName) }

// NamespaceName returns the namespace that Connect uses: the given name, or the
// value of the environment variable ZAEL_NAMESPACE, or "default".
func NamespaceName(given string) string {
	return cmp.Or(given, os.Getenv(envNamespace), defaultNamespace)
}

func namespaceName(opts *Options) string {
	if opts == nil {
		return NamespaceName("")
	}
	return NamespaceName(opts.Namespace)
}

// newStore returns a store without checking that its table exists. In errors,
// op names the operation.
func newStore(ctx context.Context, op, name string, opts *Options) (*store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &store{table: TableName(name), clock: time.Now, begun: time.Now()}
	if opts != nil {
		s.opts = *opts
	}

	if err := checkName(s.table); err != nil {
		return nil, err
	}
	if err := s.fillOptions(); err != nil {
		return nil, err
	}

	if err := s.newClients(ctx); err != nil {
		return nil, s.failure(ctx, op, s.explain(err))
	}
	return s, nil
}

// checkName checks that name is a valid stack name, since the table shares it.
func checkName(name string) error {
	const shortest, longest = 3, 55
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return &limiter.InvalidError{
				Field: "name", Value: name, Reason: "must begin with a letter, then letters, digits or hyphens",
			}
		}
	}

	if len(name) < shortest {
		return &limiter.InvalidError{
			Field: "name", Value: name, Reason: fmt.Sprintf("must be at least %d characters", shortest),
		}
	}
	if len(name) > longest {
		return &limiter.InvalidError{
			Field: "name", Value: name[:50] + "...",
			Reason: fmt.Sprintf("must be at most %d characters", longest),
		}
	}
	return nil
}

// fillOptions checks the options, sets the defaults and makes the caches.
func (s *store) fillOptions() error {
	if s.opts.Images < 0 {
		return &limiter.InvalidError{
			Field: "images", Value: strconv.Itoa(s.opts.Images), Reason: "must not be negative",
		}
	}

	s.ttl = rules.Multiplier(s.opts.BucketTTL)
	s.opts.CacheTTL = max(0, cmp.Or(s.opts.CacheTTL, defaultCacheTTL))
	s.opts.Images = cmp.Or(s.opts.Images, defaultImages)
	s.opts.Timeout = cmp.Or(s.opts.Timeout, defaultTimeout)

	// A charge that is on its way may create a bucket for as long as its
	// timeout lasts.
	s.opts.SwitchWait = max(0, cmp.Or(s.opts.SwitchWait, max(0, s.opts.Timeout), defaultTimeout))
	s.opts.PurgeWait = max(0, cmp.Or(s.opts.PurgeWait, 2*max(s.opts.Timeout, maxResponseTime)))
	s.tableClock.guard = cmp.Or(s.opts.ClockGuard, defaultClockGuard)

	s.cache = newCache(s.opts.CacheTTL, factsPerImage*s.opts.Images+sharedFacts)
	s.listed = newCache(min(s.opts.CacheTTL, maxListedLife), factsPerImage*s.opts.Images)
	s.images = newImages(s.opts.Images)
	s.seen = newSeenSwitches(s.opts.Images)
	return nil
}

// failure translates an explained error into one of package limiter, for
// functions that run before there is a repository.
func (s *store) failure(ctx context.Context, op string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errorCode(err) == "ResourceNotFoundException":
		create := s.creation()
		return remedy.With(fmt.Errorf("table %q: %w in region %s; %v creates it", s.table, limiter.ErrNotFound,
			s.opts.Region, create), create)
	case hasOtherKeys(err):
		return s.foreignTable()
	case isDomain(err):
		return err
	// The error says already that the table did not answer.
	case isTimeout(err):
	case isContext(err):
		err = fmt.Errorf("table %q did not answer in time; check that region %s is reachable: %w", s.table,
			s.opts.Region, err)
	case isUnreachable(err):
		err = fmt.Errorf("cannot connect; check the network, the endpoint and the region, %s: %w", s.opts.Region, err)
	}
	return &limiter.UnavailableError{Op: op, Err: err}
}

// hasOtherKeys reports whether a request failed because the table's keys are not
// ours. The service words this error in several ways, and our requests cause no
// other error about keys.
func hasOtherKeys(err error) bool {
	return errorCode(err) == "ValidationException" && strings.Contains(err.Error(), "key")
}

// foreignTable returns the error for a table of another program.
func (s *store) foreignTable() error {
	return &limiter.VersionError{
		Store: "table " + s.table, Schema: "unknown", Client: schemaVersion,
		Reason: "its keys or indexes differ, so it is no table of zae-limiter; choose another name",
	}
}

// isDomain reports whether err already is an error of package limiter.
func isDomain(err error) bool {
	_, version := errors.AsType[*limiter.VersionError](err)
	_, corrupt := errors.AsType[*limiter.CorruptError](err)
	return version || corrupt || errors.Is(err, limiter.ErrExists)
}

func isUnreachable(err error) bool {
	_, dial := errors.AsType[*net.OpError](err)
	_, lookup := errors.AsType[*net.DNSError](err)
	return dial || lookup
}
