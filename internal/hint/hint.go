// Package hint writes commands that errors suggest. A suggested command names
// the region and the endpoint of the call that failed, so that pasting it never
// reaches another account.
package hint

import "strings"

// Place is the region and the endpoint of a call. An empty field is left out of
// a command.
type Place struct {
	Region, Endpoint string
}

// Command returns a command of zae-limiter that goes to the place, quoted for a
// shell and enclosed in backquotes.
func (p Place) Command(words ...string) string {
	return "`" + p.Line(words...) + "`"
}

// Line is Command without backquotes.
func (p Place) Line(words ...string) string {
	all := append([]string{"zae-limiter"}, words...)
	if p.Region != "" {
		all = append(all, "--region", p.Region)
	}
	return Shell(append(all, p.EndpointFlag()...)...)
}

// EndpointFlag returns the words that name the endpoint to zae-limiter and to
// aws, none for the default one.
func (p Place) EndpointFlag() []string {
	if p.Endpoint == "" {
		return nil
	}
	return []string{"--endpoint-url", p.Endpoint}
}

// AWS returns a command of the AWS CLI that goes to the place.
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
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_@%+=:,./-", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
