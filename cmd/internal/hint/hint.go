// Package hint formats commands that errors suggest. A command names the region
// and the endpoint of the call that failed, so that it never reaches another
// account.
package hint

import "strings"

// Place is the region and the endpoint of a call. Commands omit an empty field.
type Place struct {
	Region, Endpoint string
}

// Command returns a zae-limiter command for the place, quoted for a shell and
// enclosed in backquotes.
func (p Place) Command(words ...string) string {
	return "`" + p.Line(words...) + "`"
}

// Line returns the command without backquotes.
func (p Place) Line(words ...string) string {
	all := append([]string{"zae-limiter"}, words...)
	if p.Region != "" {
		all = append(all, "--region", p.Region)
	}
	return Shell(append(all, p.EndpointFlag()...)...)
}

// EndpointFlag returns the flag for the endpoint, which zae-limiter and aws share.
// It returns nil for the default endpoint.
func (p Place) EndpointFlag() []string {
	if p.Endpoint == "" {
		return nil
	}
	return []string{"--endpoint-url", p.Endpoint}
}

// AWS returns an AWS CLI command for the place, quoted for a shell and enclosed in
// backquotes.
func (p Place) AWS(words ...string) string {
	all := append([]string{"aws"}, words...)
	if p.Region != "" {
		all = append(all, "--region", p.Region)
	}
	return "`" + Shell(append(all, p.EndpointFlag()...)...) + "`"
}

// Shell joins words into a line that a POSIX shell splits into the same words.
func Shell(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quote(word)
	}
	return strings.Join(quoted, " ")
}

func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("_@%+=:,./-", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}

	// A shell has no escape within single quotes, so each quote ends them and a
	// new pair begins.
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
