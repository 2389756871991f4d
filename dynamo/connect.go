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
	"github.com/zeroae/zae-limiter-go/internal/hint"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// What is used where neither an argument nor the environment says otherwise.
const (
	defaultName      = "zae-limiter"
	defaultNamespace = "default"
	defaultCacheTTL  = 60 * time.Second
	defaultImages    = 100_000
	factsPerImage    = 3 // about the entity, its limits, and those for the resource
	sharedFacts      = 10_000

	envName, envNamespace = "ZAEL_STACK", "ZAEL_NAMESPACE"
)

// Connect attaches to a table that is there, and writes nothing. An empty name
// is that of the environment variable ZAEL_STACK, or "zae-limiter"; an empty
// namespace that of ZAEL_NAMESPACE, or "default".
//
// The namespace "_" is the table itself, which is there before any namespace
// is: its repository has the namespaces, Version, Ping and Close. It holds no
// data, so every other method returns an error that matches limiter.ErrNotFound.
//
// Errors: limiter.ErrNotFound when the table or the namespace is missing, with
// the command that makes it; *limiter.VersionError for a table of a newer
// version or of another program; *limiter.InvalidError for the name and the
// options; *limiter.UnavailableError when AWS cannot be asked or refuses; a
// cancelled context's own error.
func Connect(ctx context.Context, name string, opts *Options) (*Repository, error) {
	s, err := newStore(ctx, "connect", name, opts)
	if err != nil {
		return nil, err
	}
	namespace := namespaceOf(opts)
	found, err := s.getAll(ctx, []key{versionKey(), namespaceKey(namespace)})
	if err != nil {
		return nil, s.failure(ctx, "connect", err)
	}
	if err := s.checkVersion(found[versionKey()]); err != nil {
		return nil, err
	}
	if namespace == reservedNamespace {
		return &Repository{store: s, ns: reservedNamespace, name: reservedNamespace}, nil
	}
	forward := found[namespaceKey(namespace)]
	if !isActive(forward) {
		return nil, fmt.Errorf("namespace %q: %w in table %q; %s makes it", namespace, limiter.ErrNotFound, s.table,
			s.place().Command("namespace", "register", namespace, "--name", s.table))
	}
	return &Repository{store: s, ns: forward.text(attrNamespaceID), name: namespace}, nil
}

func namespaceOf(opts *Options) string {
	given := ""
	if opts != nil {
		given = opts.Namespace
	}
	return cmp.Or(given, os.Getenv(envNamespace), defaultNamespace)
}

// newStore has everything but proof that the table exists.
func newStore(ctx context.Context, op, name string, opts *Options) (*store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &store{table: cmp.Or(name, os.Getenv(envName), defaultName), clock: time.Now}
	if opts != nil {
		s.opts = *opts
	}
	if err := checkName(s.table); err != nil {
		return nil, err
	}
	if err := s.fillOptions(); err != nil {
		return nil, err
	}
	if err := s.dial(ctx); err != nil {
		return nil, s.failure(ctx, op, s.explain(err))
	}
	return s, nil
}

// checkName applies the rule for names of stacks, which the table shares.
func checkName(name string) error {
	const shortest, longest = 3, 55
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return &limiter.InvalidError{Field: "name", Value: name, Reason: "must begin with a letter, then letters, digits or hyphens"}
		}
	}
	if len(name) < shortest {
		return &limiter.InvalidError{Field: "name", Value: name, Reason: fmt.Sprintf("must be at least %d characters", shortest)}
	}
	if len(name) > longest {
		return &limiter.InvalidError{Field: "name", Value: name[:50] + "...", Reason: fmt.Sprintf("must be at most %d characters", longest)}
	}
	return nil
}

func (s *store) fillOptions() error {
	if s.opts.Images < 0 {
		return &limiter.InvalidError{Field: "images", Value: strconv.Itoa(s.opts.Images), Reason: "must not be negative"}
	}
	s.ttl = rules.Multiplier(s.opts.BucketTTL)
	s.opts.CacheTTL = max(0, cmp.Or(s.opts.CacheTTL, defaultCacheTTL))
	s.opts.Images = cmp.Or(s.opts.Images, defaultImages)
	s.opts.Timeout = cmp.Or(s.opts.Timeout, defaultTimeout)
	s.opts.PurgeWait = max(0, cmp.Or(s.opts.PurgeWait, 2*max(s.opts.Timeout, longestAnswer)))
	s.cache = newCache(s.opts.CacheTTL, factsPerImage*s.opts.Images+sharedFacts)
	s.images = newImages(s.opts.Images)
	return nil
}

// failure is what a caller gets who has no repository yet, for an error that
// was explained: what to do, in the terms of package limiter.
func (s *store) failure(ctx context.Context, op string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errorCode(err) == "ResourceNotFoundException":
		return fmt.Errorf("table %q: %w in region %s; %s makes it", s.table, limiter.ErrNotFound, s.opts.Region, s.creation())
	case otherKeys(err):
		return s.foreign()
	case isDomain(err):
		return err
	case isSilent(err):
	case isContext(err):
		err = fmt.Errorf("table %q did not answer in time; can its region, %s, be reached from here? %w", s.table, s.opts.Region, err)
	case unreachable(err):
		err = fmt.Errorf("cannot connect; check the network, the endpoint and the region, %s: %w", s.opts.Region, err)
	}
	return &limiter.UnavailableError{Op: op, Err: err}
}

// place is where the table is, for commands that errors suggest.
func (s *store) place() hint.Place {
	return hint.Place{Region: s.opts.Region, Endpoint: deref(s.client.Options().BaseEndpoint)}
}

// creation is the command that makes the table: in an account with a stack, on
// an endpoint of one's own without, since few have CloudFormation.
func (s *store) creation() string {
	if p := s.place(); p.Endpoint != "" {
		return p.Command("table", "create", s.table)
	}
	return s.place().Command("deploy", "--name", s.table)
}

// otherKeys tells whether the table's keys are not ours. The service says it in
// several ways, and nothing else about keys can be wrong with our requests.
func otherKeys(err error) bool {
	return errorCode(err) == "ValidationException" && strings.Contains(err.Error(), "key")
}

func (s *store) foreign() error {
	return &limiter.VersionError{
		Store: "table " + s.table, Schema: "unknown", Client: schemaVersion,
		Reason: "its keys or indexes are others, so it is no table of zae-limiter; choose another name",
	}
}

// isDomain tells whether an error is in the terms of package limiter already.
func isDomain(err error) bool {
	_, version := errors.AsType[*limiter.VersionError](err)
	_, corrupt := errors.AsType[*limiter.CorruptError](err)
	return version || corrupt
}

func unreachable(err error) bool {
	_, dial := errors.AsType[*net.OpError](err)
	_, lookup := errors.AsType[*net.DNSError](err)
	return dial || lookup
}
