package rls

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// template is a text with values of a descriptor, such as "key-{api_key|hash}".
type template []part

// part is literal text, or the value of a key.
type part struct {
	text, key string
	hash      bool // the hash of the value instead of the value
}

// parseTemplate reads a template. The error says what would be right.
func parseTemplate(text string) (template, error) {
	var t template
	for rest := text; rest != ""; {
		open, shut := strings.IndexByte(rest, '{'), strings.IndexByte(rest, '}')

		if shut >= 0 && (open < 0 || shut < open) {
			return nil, fmt.Errorf("%q has a } without a {; write {KEY}", text)
		}
		if open < 0 {
			return append(t, part{text: rest}), nil
		}
		if shut < 0 {
			return nil, fmt.Errorf("%q has a { without a }; write {KEY}", text)
		}

		if open > 0 {
			t = append(t, part{text: rest[:open]})
		}

		key, filter, filtered := strings.Cut(rest[open+1:shut], "|")
		if key == "" || strings.Contains(key, "{") || filtered && filter != "hash" {
			return nil, fmt.Errorf("%q is not a value of a descriptor; write {KEY}, or {KEY|hash} for its hash",
				rest[open:shut+1])
		}

		t = append(t, part{key: key, hash: filtered})
		rest = rest[shut+1:]
	}
	return t, nil
}

// keys returns the keys that the template needs.
func (t template) keys() (keys []string) {
	for _, p := range t {
		if p.key != "" && !slices.Contains(keys, p.key) {
			keys = append(keys, p.key)
		}
	}
	return keys
}

// expand replaces the keys by the values of a descriptor.
func (t template) expand(entries []*descriptors.RateLimitDescriptor_Entry) string {
	if len(t) == 1 {
		return t[0].expand(entries)
	}

	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.expand(entries))
	}
	return b.String()
}

func (p part) expand(entries []*descriptors.RateLimitDescriptor_Entry) string {
	if p.key == "" {
		return p.text
	}

	for _, e := range entries {
		if e.GetKey() == p.key {
			if p.hash {
				return hashOf(e.GetValue())
			}
			return e.GetValue()
		}
	}
	// ParseRules makes sure that a descriptor of the rule has the key.
	return ""
}

// hashOf returns the first 16 hexadecimal digits of the SHA-256 of a value, so
// that the store keeps no secret.
func hashOf(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:8])
}
