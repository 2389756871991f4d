package proxy

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// replaceCredentials removes the client's credentials from the headers for the
// upstream, in every spelling, and sets the proxy's own. Without its own, the proxy
// passes the key that it has identified the client by, once. Beside the proxy's own
// key, a client must not choose which account of the operator pays.
func (p *Proxy) replaceCredentials(h http.Header) {
	own := p.opts.Credentials

	maps.DeleteFunc(h, func(name string, values []string) bool {
		if isUsual(name) {
			return false
		}
		// Without a key of the proxy, the client's own passes. An empty header
		// goes, since the upstream could read it as another key.
		passes := own.Name == "" && slices.Contains(credentialFields, name) && strings.Join(values, "") != ""
		return isCredential(name) && !passes || own.Name != "" && isAccount(name)
	})

	// If the key identifies the client, apiKey has refused values that differ.
	for _, name := range credentialFields {
		if values := slices.DeleteFunc(h.Values(name), func(v string) bool {
			return strings.TrimSpace(v) == ""
		}); len(values) > 0 {
			h.Set(name, values[0])
		}
	}

	if own.Name != "" {
		h.Set(own.Name, own.Value)
		for name, values := range p.opts.Account {
			h[name] = slices.Clone(values)
		}
	}
}

// isAccount reports whether servers may take a header or a parameter for the
// account that pays, such as OpenAI-Organization and OpenAI-Project.
func isAccount(name string) bool {
	// OpenAI-Organization-ID and OpenAI-Organization mean the same.
	letters := strings.TrimSuffix(lettersOf(name), "id")
	return slices.ContainsFunc([]string{
		"organization", "organisation", "openaiorg", "xorg", "project", "workspace", "account", "tenant",
		"subscription",
	}, func(end string) bool {
		return strings.HasSuffix(letters, end)
	})
}

// isFunctionKey reports whether Azure's functions take a parameter for their key. Its
// name is too common a word to remove it where clients have their own keys.
func isFunctionKey(name string) bool { return lettersOf(name) == "code" }

// lettersOf returns the letters and digits of a name in lower case.
func lettersOf(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r | 0x20
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}, name)
}

// isCredential reports whether servers may take a header or a parameter for a
// credential. It looks at the letters alone: some servers take "_" for "-", or
// ignore both.
func isCredential(name string) bool {
	letters := lettersOf(name)

	hasEnd := func(end string) bool { return strings.HasSuffix(letters, end) }
	if slices.ContainsFunc([]string{"key", "token", "auth", "jwt"}, hasEnd) {
		// A request needs these to work, and they prove no identity.
		return !slices.ContainsFunc(
			[]string{"idempotencykey", "cachekey", "pagetoken", "nexttoken", "continuationtoken"}, hasEnd,
		)
	}

	// These words are compared whole, since other names contain them: "design"
	// contains "sig".
	if slices.Contains([]string{"cookie", "cookie2", "setcookie", "sig", "signature"}, letters) {
		return true
	}

	return slices.ContainsFunc([]string{
		"apikey", "authoriz", "authentic", "authtoken", "authkey", "accesstoken", "accesskey", "bearer", "idtoken",
		"sessiontoken", "securitytoken",
		"secret", "password", "credential", "subscriptionkey", "functionskey", "clientcert", "username", "remoteuser",
	}, func(part string) bool { return strings.Contains(letters, part) })
}

// withoutCredentials removes the credentials from a query, and beside the proxy's
// own key what chooses an account. The rest stays as it is.
func (p *Proxy) withoutCredentials(query string) string {
	if query == "" {
		return ""
	}

	parts := strings.Split(query, "&")
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool {
		name, _, _ := strings.Cut(part, "=")
		// Some servers decode twice, so that %256bey is "key" for them.
		for range 2 {
			if decoded, err := url.QueryUnescape(name); err == nil {
				name = decoded
			}
		}

		// Some servers take the method from the query. The client would then
		// pay for another call than it makes.
		own := p.opts.Credentials.Name != "" && (isAccount(name) || isFunctionKey(name))
		return isCredential(name) || own || overridden(name) || name == "_method"
	}), "&")
}
