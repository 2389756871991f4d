package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Settings holds the limits and entities of a namespace.
type Settings struct {
	Namespace string
	Schema    string           // the schema version of the table, "" without a version record
	Levels    []limiter.Config // the stored limits, by scope
	Entities  []limiter.Entity // by ID, a parent before its children
	// What limiter.Config and limiter.Entity cannot express, a sentence each.
	LeftOut []string
	// The levels that a newer release has disabled. An empty entity or resource
	// means all.
	Disabled []limiter.Scope
}

// newestSettings is the first schema version that ReadSettings refuses.
var newestSettings = version{major: 0, minor: 11, patch: 0}

// ReadSettings reads the limits and entities of a namespace, so that they can move
// to another table. It also reads tables that Connect refuses: those of Python's
// zae-limiter 0.10.1 to 0.17.0, whose schema versions are 0.9.0 and 0.10.0. It
// writes nothing, and reads no buckets.
//
// A quota of a newer release becomes a quota if its cron expression is the start
// of an hour in UTC, or of a day, week, month or year in a zone. A soft limit
// becomes a shadow limit. LeftOut has a sentence for everything else.
//
// ReadSettings returns the errors of Connect, and *limiter.CorruptError for a
// damaged level.
func ReadSettings(ctx context.Context, name string, opts *Options) (*Settings, error) {
	s, err := newStore(ctx, "read settings", name, opts)
	if err != nil {
		return nil, err
	}

	namespace := namespaceName(opts)
	found, err := s.getAll(ctx, []key{versionKey(), namespaceKey(namespace)})
	if err != nil {
		return nil, s.failure(ctx, "read settings", err)
	}

	record, forward := found[versionKey()], found[namespaceKey(namespace)]
	if err := s.checkReadable(record); err != nil {
		return nil, err
	}

	if !isActive(forward) {
		return nil, fmt.Errorf("namespace %q: %w in table %q", namespace, limiter.ErrNotFound, s.table)
	}

	r := &settingsReader{
		Repository: &Repository{store: s, ns: forward.text(attrNamespaceID), name: namespace},
		settings:   Settings{Namespace: namespace, Schema: record.text(attrSchema)},
	}

	if err := r.read(withoutTryTimeout(ctx)); err != nil {
		return nil, s.failure(ctx, "read settings", err)
	}
	return &r.settings, nil
}

// checkReadable returns a *limiter.VersionError for a schema that ReadSettings does
// not know.
func (s *store) checkReadable(record item) error {
	if record == nil {
		return nil
	}
	stored := decodeVersion(record).schema
	if v, ok := parseVersion(stored); ok && v.compareRelease(newestSettings) < 0 {
		return nil
	}
	return &limiter.VersionError{
		Store: "table " + s.table, Schema: stored, Client: schemaVersion,
		Reason: "settings can be read up to schema 0.10",
	}
}

// settingsReader reads the settings of one namespace.
type settingsReader struct {
	*Repository
	settings Settings
}

// read finds the items by the index of the namespace, as a purge does, since the
// registries of newer releases list levels without limits too.
func (r *settingsReader) read(ctx context.Context) error {
	for _, prefix := range []string{systemPK(r.ns), resourcePK(r.ns, ""), entityPKPrefix(r.ns)} {
		var keys []key
		for it, err := range r.query(ctx, r.ns, queryIndex(indexNamespace, r.ns, prefix)) {
			if err != nil {
				return err
			}
			if k := it.key(); isSetting(k) {
				keys = append(keys, k)
			}
		}

		slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(a.pk, b.pk), cmp.Compare(a.sk, b.sk)) })

		for batch := range slices.Chunk(keys, maxGets) {
			items, err := r.getListed(ctx, batch)
			if err != nil {
				return err
			}
			for _, k := range batch {
				if err := r.add(k, items[k]); err != nil {
					return err
				}
			}
		}
	}

	r.settings.Entities = parentsFirst(r.settings.Entities)
	return nil
}

// add adds what an item holds, which is nil if it has been deleted since the index
// was read.
func (r *settingsReader) add(k key, it item) error {
	switch {
	case it == nil:
	case k.sk == metaSK:
		r.settings.Entities = append(r.settings.Entities, r.decodeEntity(it))
	case k.sk == switchSK:
		r.leaveOut(r.scopeOf(k), "has switches of this program; "+string(remedy.ListSwitches)+" lists them")
	default:
		return r.addLevel(it)
	}
	return nil
}

func isSetting(k key) bool {
	return k.sk == metaSK || k.sk == configSK || k.sk == switchSK || strings.HasPrefix(k.sk, configSKPrefix)
}

// scopeOf returns the scope of a config item or of switches.
func (r *settingsReader) scopeOf(k key) (s limiter.Scope) {
	if entity, ok := strings.CutPrefix(k.pk, entityPKPrefix(r.ns)); ok {
		resource, _ := strings.CutPrefix(k.sk, configSKPrefix)
		if k.sk == switchSK {
			resource = ""
		}
		return limiter.Scope{Entity: entity, Resource: portResource(resource)}
	}

	s.Resource, _ = strings.CutPrefix(k.pk, resourcePK(r.ns, ""))
	if k.pk == systemPK(r.ns) {
		s.Resource = ""
	}
	return s
}

// addLevel adds the level of a config item.
func (r *settingsReader) addLevel(it item) error {
	s := r.scopeOf(it.key())
	cfg, err := decodeConfig(s, r.translate(s, it))
	if err != nil {
		return err
	}

	if !rules.Empty(cfg) {
		r.settings.Levels = append(r.settings.Levels, cfg)
	}
	return nil
}

// translate returns a config item of a newer release as this package stores it. It
// notes what has no form here.
func (r *settingsReader) translate(s limiter.Scope, it item) item {
	out := maps.Clone(it)
	for _, attr := range slices.Sorted(maps.Keys(it)) {
		if name, ok := limitOf(attr, configPrefix, fieldCapacity); ok {
			r.translateLimit(s, out, name)
		} else if name, ok := limitOf(attr, rollingPrefix, fieldCapacity); ok {
			after, _ := it.number(rollingPrefix + name + fieldRollingAfter)
			r.leaveOut(s, "limit %s starts anew %d seconds after its first use; the limit is left out", name, after)
		} else if !it.isKnown(attr) {
			r.leaveOut(s, "attribute %s is unknown; it is left out", attr)
		}
	}

	switch switched := it[attrNewerSwitch]; {
	case switched == nil:
	case it.truth(attrNewerSwitch):
		r.settings.Disabled = append(r.settings.Disabled, s)
	case it.text(attrNewerSwitch) != "":
		r.leaveOut(s, "has the switch %q, which admits every call; no switch here does", it.text(attrNewerSwitch))
	default:
		r.leaveOut(s, "is enabled in spite of switches above it; a switch here has no exceptions")
	}

	if s != (limiter.Scope{}) && it[attrCascade] != nil {
		r.leaveOut(s, "decides about cascading; here the record of an entity decides")
	}
	return out
}

// translateLimit turns the fields of a newer limit into those of this package.
func (r *settingsReader) translateLimit(s limiter.Scope, it item, name string) {
	if it.truth(configAttr(name, fieldNewerSoft)) {
		it[configAttr(name, fieldShadow)] = truth(true)
	}

	if it[configAttr(name, fieldNewerSchedule)] != nil {
		r.leaveOut(s, "limit %s changes by a schedule; its numbers outside of the schedule are exported", name)
	}

	reset := it[configAttr(name, fieldNewerReset)]
	if reset == nil {
		return
	}

	zone := limiter.Limit{}.In(it.text(attrNewerZone)).Zone
	if every := calendarOf(it.text(configAttr(name, fieldNewerReset)), zone); every != 0 {
		it[configAttr(name, fieldWindow)] = text(rules.WindowText(limiter.Limit{Window: every, Zone: zone}))
		return
	}

	r.leaveOut(s, "limit %s starts anew by cron %q in zone %s, which is not the start of an hour, day, week, "+
		"month or year; the limit is left out",
		name, cronText(it.text(configAttr(name, fieldNewerReset))), it.text(attrNewerZone))
	for _, field := range []string{fieldCapacity, fieldAmount, fieldPeriod} {
		delete(it, configAttr(name, field))
	}
}

// isKnown reports whether ReadSettings knows what an attribute of a config item
// means.
func (it item) isKnown(attr string) bool {
	for _, prefix := range []string{configPrefix, rollingPrefix} {
		for _, field := range []string{
			fieldCapacity, fieldAmount, fieldPeriod, fieldWindow, fieldShadow, fieldNewerReset, fieldNewerSchedule,
			fieldNewerSoft, fieldRollingAfter,
		} {
			// A field without the capacity beside it belongs to no limit that
			// would be read.
			if name, ok := limitOf(attr, prefix, field); ok && it[prefix+name+fieldCapacity] != nil {
				return true
			}
		}
	}

	return slices.Contains([]string{
		attrPK, attrSK, attrGSI3PK, attrGSI3SK, attrGSI4PK, attrGSI4SK, attrEntity, attrResource, attrConfigVersion,
		attrMode, attrRetention,
		attrCascade, attrNewerSwitch, attrNewerZone,
	}, attr)
}

func (r *settingsReader) leaveOut(s limiter.Scope, format string, args ...any) {
	r.settings.LeftOut = append(r.settings.LeftOut, rules.ScopeName(s)+": "+fmt.Sprintf(format, args...))
}

// parentsFirst returns entities with each parent before its children.
func parentsFirst(entities []limiter.Entity) []limiter.Entity {
	byID := make(map[string]limiter.Entity, len(entities))
	for _, e := range entities {
		byID[e.ID] = e
	}
	sorted := make([]limiter.Entity, 0, len(entities))

	var add func(id string)
	add = func(id string) {
		e, left := byID[id]
		if !left {
			return
		}
		delete(byID, id) // before its parent, which may be a descendant
		add(e.Parent)
		sorted = append(sorted, e)
	}

	for _, e := range entities {
		add(e.ID)
	}
	return sorted
}
