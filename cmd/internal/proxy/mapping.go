package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
	"github.com/zeroae/zae-limiter-go/llm"
)

// Mapping gives API keys names and parents, and models resources.
type Mapping struct {
	Keys []KeyMapping `yaml:"keys"`
	// Models gives resources by the name of a model, which may end in "*".
	Models map[string]string `yaml:"models"`

	byHash map[string]string // entities by the first digits of a hash
}

// KeyMapping is the entity of one API key.
type KeyMapping struct {
	// SHA256 is the hash of the key: at least its first 16 hex digits.
	SHA256 string `yaml:"sha256"`
	Entity string `yaml:"entity"`
	Parent string `yaml:"parent"` // pays too; "" for none
}

// MappingFunc returns the current mapping, or nil if there is none.
type MappingFunc func() *Mapping

// ParseMapping reads a mapping from YAML. Its error lists every problem. A mapping
// that is empty, or whose list of keys is, is an error: it would admit every key.
func ParseMapping(text []byte) (*Mapping, error) {
	m := &Mapping{}
	switch next, err := yamlfile.Decode(text, m); {
	case next != nil:
		return nil, errors.New("the mapping must be one YAML document")
	case err != nil:
		return nil, plainYAML(err)
	}

	if err := m.checkEmpty(text); err != nil {
		return nil, err
	}

	err := m.prepare()
	return m, err
}

// checkEmpty rejects a mapping that has lost its keys.
func (m *Mapping) checkEmpty(text []byte) error {
	if len(m.Keys) > 0 {
		return nil
	}

	// An empty list is the same as none after decoding, so the text has to be
	// asked.
	fields := map[string]yaml.Node{}
	if err := yaml.Unmarshal(text, &fields); err != nil {
		return plainYAML(err)
	}

	if _, listed := fields["keys"]; listed {
		return errors.New("keys is empty, which would admit every key; list keys, or leave keys out to admit all")
	}

	if len(m.Models) == 0 {
		return errors.New("the mapping is empty, which would admit every key; list keys or models")
	}
	return nil
}

// plainYAML removes names of Go types from the errors of the parser.
func plainYAML(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.ReplaceAll(strings.TrimPrefix(text, "unmarshal errors:\n  "), "\n  ", "; ")
	for _, name := range []string{"Mapping", "KeyMapping"} {
		text = strings.ReplaceAll(text, " not found in type proxy."+name,
			" is unknown; the fields are keys (sha256, entity, parent) and models")
	}
	return errors.New(text)
}

// prepare checks the mapping and indexes its keys.
func (m *Mapping) prepare() error {
	m.byHash = map[string]string{}
	parents := map[string]string{}
	var problems []error
	for i, k := range m.Keys {
		if err := m.addKey(k, parents); err != nil {
			problems = append(problems, fmt.Errorf("keys, entry %d: %w", i+1, err))
		}
	}

	for model, resource := range m.Models {
		if model == "" || strings.Contains(strings.TrimSuffix(model, "*"), "*") {
			problems = append(problems,
				fmt.Errorf("models, %.60q: must be the name of a model, or its beginning and one \"*\" at the end",
					model))
		}

		sample := limiter.Request{Entity: "x", Resource: resource, Consume: limiter.Tokens("x", 1)}
		if err := sample.Validate(); err != nil {
			problems = append(problems, fmt.Errorf("models, %.60q: %w", model, err))
		}
	}

	// The models come from a map, so the problems need an order of their own.
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

func (m *Mapping) addKey(k KeyMapping, parents map[string]string) error {
	hash := strings.ToLower(k.SHA256)
	switch {
	case len(hash) < hashDigits || len(hash) > 64 || strings.Trim(hash, "0123456789abcdef") != "":
		return errors.New(
			"sha256 must be the first 16 or more hex digits of the SHA-256 of the key, not the key itself",
		)
	case k.Entity == "":
		return errors.New("entity is missing; it names who pays")
	}

	entity := limiter.Entity{ID: k.Entity, Parent: k.Parent, Cascade: k.Parent != ""}
	if err := entity.Validate(); err != nil {
		return err
	}

	hash = hash[:hashDigits]
	if other, ok := m.byHash[hash]; ok {
		return fmt.Errorf("the key %s is listed twice, for %s and for %s", hash, other, k.Entity)
	}

	if parent, ok := parents[k.Entity]; ok && parent != k.Parent {
		return fmt.Errorf("entity %s has two parents, %q and %q; give it one", k.Entity, parent, k.Parent)
	}
	// The first digits decide, however many the file gives.
	m.byHash[hash], parents[k.Entity] = k.Entity, k.Parent
	return nil
}

// entity returns the entity of a hash.
func (m *Mapping) entity(hash string) (string, bool) {
	if m == nil {
		return "", false
	}
	entity, ok := m.byHash[hash]
	return entity, ok
}

// HasKeys reports whether m identifies clients.
func (m *Mapping) HasKeys() bool { return m != nil && len(m.Keys) > 0 }

// resource returns the resource of a model: the alias that fits it best, or the
// model itself.
func (m *Mapping) resource(model string) string {
	if m != nil {
		if resource, ok := llm.MatchModel(m.Models, model); ok {
			return resource
		}
	}
	return model
}

// EnsureEntities stores the entities of m that have a parent, so that the parent
// pays too. It changes no entity that is stored, and returns an error if one has
// another parent.
func (m *Mapping) EnsureEntities(ctx context.Context, lim *limiter.RateLimiter) error {
	done := map[string]bool{}
	for _, k := range m.Keys {
		if k.Parent == "" || done[k.Entity] {
			continue
		}
		done[k.Entity] = true
		if err := ensureEntity(ctx, lim, k); err != nil {
			return err
		}
	}
	return nil
}

func ensureEntity(ctx context.Context, lim *limiter.RateLimiter, k KeyMapping) error {
	_, err := lim.CreateEntity(ctx, limiter.Entity{ID: k.Entity, Parent: k.Parent, Cascade: true})
	if !errors.Is(err, limiter.ErrExists) {
		return err
	}

	// The entity is there already. It keeps its parent, which the mapping must
	// not contradict silently.
	stored, err := lim.Entity(ctx, k.Entity)
	if err != nil {
		return err
	}

	if stored.Parent != k.Parent || !stored.Cascade {
		return fmt.Errorf("entity %s is stored with parent %q (cascade: %t), but the mapping says %q; delete "+
			"the entity or change the mapping",
			k.Entity, stored.Parent, stored.Cascade, k.Parent)
	}
	return nil
}
