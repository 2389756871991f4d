package programs

import (
	"context"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/proxy"
)

// proxyIdentity chooses how the proxy identifies clients.
type proxyIdentity struct {
	mapping, header        string
	jwtKey, jwtClaim       string
	jwtAudience, jwtIssuer string
	credentials            string // a file
}

func (i *proxyIdentity) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&i.mapping, "mapping", "",
		"YAML `file` with keys (sha256, entity, parent) and models (aliases); reread when it changes")

	flags.StringVar(&i.header, "trust-header", "",
		"`header` that holds the entity; only behind a proxy that sets it for every request")

	flags.StringVar(&i.jwtKey, "jwt-key", "", "`file` with the public key of bearer tokens, PEM")
	flags.StringVar(&i.jwtAudience, "jwt-audience", "", "`audience` that a token must name")
	flags.StringVar(&i.jwtIssuer, "jwt-issuer", "", "`issuer` that a token must name (default: any)")
	flags.StringVar(&i.jwtClaim, "jwt-claim", "sub", "`claim` of a token that holds the entity")

	flags.StringVar(&i.credentials, "upstream-auth", "",
		"`file` with a header line that replaces the keys of clients, such as \"Authorization: Bearer KEY\", "+
			"and lines of further headers, such as OpenAI-Project")
}

// apply sets the identity of opts. It reads the files and stores the entities of
// the mapping.
func (i *proxyIdentity) apply(
	ctx context.Context, o *proxyOptions, lim *limiter.RateLimiter, opts *proxy.Options,
) error {
	if err := i.applyMapping(ctx, o, lim, opts); err != nil {
		return err
	}

	// A mapping with keys has set Identify already.
	if i.header != "" {
		if i.jwtKey != "" || opts.Identify != nil {
			return kit.Usagef(
				"--trust-header excludes --jwt-key and a mapping with keys; choose one way to identify clients",
			)
		}
		if !validHeader(i.header) {
			return kit.Usagef("invalid --trust-header %q: must be the name of a header, such as X-User",
				kit.Clip(i.header))
		}
		opts.Identify = proxy.ByHeader(i.header)
	}

	if err := i.applyJWT(o, opts); err != nil {
		return err
	}
	return i.applyCredentials(opts)
}

// applyMapping reads the mapping, and follows its changes.
func (i *proxyIdentity) applyMapping(
	ctx context.Context, o *proxyOptions, lim *limiter.RateLimiter, opts *proxy.Options,
) error {
	if i.mapping == "" {
		return nil
	}

	hadKeys, started := false, false
	parse := func(content ...[]byte) (*proxy.Mapping, error) {
		m, err := proxy.ParseMapping(content[0])
		if err != nil {
			return nil, err
		}

		// Identify is chosen once, so a reload must not change whether there
		// are keys.
		if started && m.HasKeys() != hadKeys {
			return nil, fmt.Errorf(
				"keys were added to a mapping without any, or all were removed, which changes how clients " +
					"are identified; restart the proxy",
			)
		}

		hadKeys, started = m.HasKeys(), true
		err = m.EnsureEntities(context.WithoutCancel(ctx), lim)
		return m, err
	}

	files, err := listen.WatchFiles(ctx, parse, func(err error) {
		if err != nil {
			o.Warn("%s: the mapping stays as it was: %v", i.mapping, err)
			return
		}
		o.Say("%s: the mapping was read again", i.mapping)
	}, i.mapping)
	if err != nil {
		return kit.Usagef("--mapping %s: %v", i.mapping, err)
	}

	// A mapping without keys has models only. Then the hash of an API key
	// identifies its client.
	opts.Mapping = files.Get
	if files.Get().HasKeys() {
		opts.Identify = proxy.ByMapping(files.Get)
	}
	return nil
}

func (i *proxyIdentity) applyJWT(o *proxyOptions, opts *proxy.Options) error {
	if i.jwtKey == "" {
		if i.jwtAudience != "" || i.jwtIssuer != "" {
			return kit.Usagef("--jwt-audience and --jwt-issuer need --jwt-key, the public key of the tokens")
		}
		return nil
	}

	if opts.Identify != nil {
		return kit.Usagef("--jwt-key excludes a mapping with keys; choose one way to identify clients")
	}

	key, err := kit.ReadFile(i.jwtKey, nil)
	if err != nil {
		return kit.Usagef("--jwt-key: %v", err)
	}

	opts.Identify, err = proxy.ByJWT(proxy.JWTOptions{
		Key: key, Audience: i.jwtAudience, Issuer: i.jwtIssuer, Claim: i.jwtClaim, Now: o.Now,
	})
	if err != nil {
		return kit.Usagef("--jwt-key %s: %v", i.jwtKey, err)
	}
	return nil
}

// applyCredentials reads the header that replaces the keys of clients, and those
// that go with it. Without a check of clients, anyone could use the key of the
// proxy.
func (i *proxyIdentity) applyCredentials(opts *proxy.Options) error {
	if i.credentials == "" {
		return nil
	}
	if opts.Identify == nil {
		return kit.Usagef(
			"--upstream-auth needs clients that are checked here: give a --mapping with keys, --jwt-key or " +
				"--trust-header",
		)
	}

	content, err := kit.ReadFile(i.credentials, nil)
	if err != nil {
		return kit.Usagef("--upstream-auth: %v", err)
	}

	opts.Account = http.Header{}
	for line := range strings.Lines(strings.TrimSpace(string(content))) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)

		// A value with a line break would begin a header of its own.
		if !ok || !validHeader(name) || value == "" || strings.ContainsAny(value, "\r\n") {
			return kit.Usagef(
				"--upstream-auth %s: the file must hold a header line, such as \"Authorization: Bearer "+
					"KEY\", and may hold further ones",
				i.credentials,
			)
		}

		// The first header replaces the keys of clients, and the others go with
		// it.
		if opts.Credentials.Name == "" {
			opts.Credentials = proxy.Credentials{Name: textproto.CanonicalMIMEHeaderKey(name), Value: value}
			continue
		}
		opts.Account.Add(name, value)
	}

	if opts.Credentials.Name == "" {
		return kit.Usagef(
			"--upstream-auth %s: the file is empty; it must hold a header line, such as \"Authorization: Bearer KEY\"",
			i.credentials,
		)
	}
	return nil
}

// validHeader reports whether name can be the name of a header.
func validHeader(name string) bool {
	return name != "" && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}
