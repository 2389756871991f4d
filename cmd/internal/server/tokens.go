package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// Role is what the holder of a token may do.
type Role string

// The roles of tokens. Each is separate; RoleAdmin includes the others.
const (
	// RoleAcquire acquires, and settles its leases.
	RoleAcquire Role = "acquire"
	// RoleRead explains, and reads everything in its namespace.
	RoleRead Role = "read"
	// RoleAdmin may do both, send limits in a request, list namespaces, switch levels
	// and fill buckets.
	RoleAdmin Role = "admin"
)

// Allows reports whether r includes the role that a call needs.
func (r Role) Allows(needed Role) bool { return r == needed || r == RoleAdmin }

// including returns the roles that allow a call of this role.
func (r Role) including() string {
	if r == RoleAdmin {
		return string(r)
	}
	return string(r) + " or admin"
}

// Identity is an authenticated caller.
type Identity struct {
	Name      string // for people; unique
	Namespace string // "" for the namespace of the server
	Role      Role
	hash      [sha256.Size]byte // of the token
	owner     owner             // identity to which leases and keys are bound
}

// owner identifies a token in its namespace: a token that moves to another one
// leaves its leases and keys behind. The zero owner stands for all callers of a
// server without tokens.
type owner [sha256.Size]byte

// Tokens holds the tokens of a file and follows its changes.
type Tokens struct{ file *listen.Files[[]Identity] }

// maxTokens bounds a file, since every check compares with every token.
const maxTokens = 1000

// OpenTokens reads a file of tokens and follows it until ctx ends. When the file
// changes, the new tokens apply within a second. A file without tokens is valid, and
// then no token is. If the new file is broken or gone, the old tokens stay, and changed
// receives the reason. After a change it receives nil. The caller may pass a nil
// changed.
func OpenTokens(ctx context.Context, path string, changed func(error)) (*Tokens, error) {
	parse := func(content ...[]byte) ([]Identity, error) {
		all, err := parseTokens(content[0])
		if err != nil {
			return nil, fmt.Errorf("tokens %s: %w", path, err)
		}
		return all, nil
	}

	file, err := listen.WatchFiles(ctx, parse, changed, path)
	if err != nil {
		return nil, err
	}
	return &Tokens{file}, nil
}

// Check returns the identity of a token. Its time does not depend on how much of
// a token is right.
func (t *Tokens) Check(token string) (Identity, bool) {
	hash := sha256.Sum256([]byte(token))
	var found Identity
	ok := false
	// The loop goes on after a match, so that its time does not show which
	// entry it is.
	for _, id := range t.file.Get() {
		if subtle.ConstantTimeCompare(hash[:], id.hash[:]) == 1 {
			found, ok = id, true
		}
	}

	return found, ok
}

// Len returns the number of tokens.
func (t *Tokens) Len() int { return len(t.file.Get()) }

// NewToken returns a random token of 256 bits and its hash in the form of the
// file.
func NewToken() (token, hash string) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	token = "zael_" + base64.RawURLEncoding.EncodeToString(secret)

	sum := sha256.Sum256([]byte(token))
	return token, hex.EncodeToString(sum[:])
}

// TokenEntry is a token in the file.
type TokenEntry struct {
	Name      string `yaml:"name"`
	Hash      string `yaml:"sha256"` // 64 hexadecimal digits
	Role      Role   `yaml:"role"`
	Namespace string `yaml:"namespace"`
}

// TokenFile is the form of the file of tokens.
type TokenFile struct {
	Tokens []TokenEntry `yaml:"tokens"`
}

func parseTokens(data []byte) ([]Identity, error) {
	var file TokenFile
	switch next, err := yamlfile.Decode(data, &file); {
	case err != nil:
		return nil, tokenSyntaxError(err)
	case next != nil:
		return nil, errors.New("must hold one YAML document")
	}

	if len(file.Tokens) > maxTokens {
		return nil, fmt.Errorf("must list at most %d tokens below the key tokens", maxTokens)
	}

	all := make([]Identity, len(file.Tokens))
	for i, e := range file.Tokens {
		id, err := e.identity()
		if err != nil {
			return nil, fmt.Errorf("token %d: %w", i+1, err)
		}

		if slices.ContainsFunc(all[:i], func(other Identity) bool {
			return other.Name == id.Name || other.hash == id.hash
		}) {
			return nil, fmt.Errorf("token %d: its name or its hash is listed twice; each must be unique", i+1)
		}
		all[i] = id
	}

	return all, nil
}

var yamlLine = regexp.MustCompile(`line \d+`)

// tokenSyntaxError returns an error without the text of the file, which may hold a
// token where a hash belongs.
func tokenSyntaxError(err error) error {
	const form = "must hold the key tokens with a list, and each entry name, sha256, role and namespace"
	if line := yamlLine.FindString(err.Error()); line != "" {
		return errors.New(line + ": " + form)
	}
	return errors.New(form)
}

func (e TokenEntry) identity() (Identity, error) {
	id := Identity{Name: e.Name, Namespace: e.Namespace, Role: e.Role}

	if err := (limiter.Entity{ID: e.Name}).Validate(); err != nil {
		return id, errors.New("name: must begin with a letter or digit, then letters, digits or _.-:@")
	}

	if err := (limiter.Namespace{Name: e.Namespace}).Validate(); err != nil {
		return id, errors.New("namespace: must be the name of a namespace, such as default")
	}

	if !slices.Contains([]Role{RoleAcquire, RoleRead, RoleAdmin}, e.Role) {
		return id, errors.New("role: must be acquire, read or admin")
	}

	hash, err := hex.DecodeString(e.Hash)
	if err != nil || len(hash) != len(id.hash) {
		return id, errors.New("sha256: must be the SHA-256 of the token as 64 hexadecimal digits")
	}

	copy(id.hash[:], hash)
	id.owner = sha256.Sum256(append(id.hash[:], id.Namespace...))
	return id, nil
}
