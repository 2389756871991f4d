package dynamo

import (
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// One item holds the switches of an entity and of its resources. Another one holds
// those of all entities, of single resources and of everything. There is no item
// if nothing is off.

// decodeSwitches decodes the switches in the item of an entity, or of all entities
// if entity is "". A malformed switch is off, without reason or time.
func decodeSwitches(entity string, it item) rules.Switches {
	if it == nil {
		return nil
	}
	off := rules.Switches{}
	if v, found := it[attrOffAll]; found {
		of := limiter.Scope{Entity: entity}
		off[of] = decodeSwitch(of, v)
	}

	resources, _ := it[attrOffResources].(*types.AttributeValueMemberM)
	if resources == nil {
		return off
	}

	for resource, v := range resources.Value {
		of := limiter.Scope{Entity: entity, Resource: resource}
		off[of] = decodeSwitch(of, v)
	}
	return off
}

func decodeSwitch(of limiter.Scope, v types.AttributeValue) limiter.Switch {
	s := limiter.Switch{Scope: of}
	if m, ok := v.(*types.AttributeValueMemberM); ok {
		s.Reason, s.Since = item(m.Value).text(fieldReason), item(m.Value).time(fieldSince)
	}
	return s
}

// encodeSwitch returns the attribute of a switch.
func encodeSwitch(s limiter.Switch) *types.AttributeValueMemberM {
	return &types.AttributeValueMemberM{Value: item{fieldReason: text(s.Reason), fieldSince: stamp(s.Since)}}
}

// copyOf returns the copy of a switch for a bucket. The ID of the event makes it
// differ from every earlier copy.
func copyOf(s limiter.Switch, event string) types.AttributeValue {
	m := encodeSwitch(s)
	m.Value[fieldEvent] = text(event)
	return m
}

// maxSwitchItem is the size of the largest item of switches. The service allows
// 400 KiB, and charges read the item.
const maxSwitchItem = 300 << 10

// switchItem returns the item of switches, which all belong to one entity or to
// none. It is indexed, so that Switches finds it.
func (r *Repository) switchItem(entity string, off rules.Switches) (item, error) {
	it := newItem(r.ns, switchKey(r.ns, entity))
	if entity != "" {
		it[attrEntity] = text(entity)
		it[attrGSI3PK], it[attrGSI3SK] = text(switchesPK(r.ns)), text(entity)
	}

	resources := map[string]types.AttributeValue{}
	for of, s := range off {
		if of.Resource == "" {
			it[attrOffAll] = encodeSwitch(s)
		} else {
			resources[of.Resource] = encodeSwitch(s)
		}
	}

	if len(resources) > 0 {
		it[attrOffResources] = &types.AttributeValueMemberM{Value: resources}
	}

	if it.size() > maxSwitchItem {
		return nil, &limiter.InvalidError{
			Field: "scope", Value: limiter.Scope{Entity: entity}.String(),
			Reason: "has too many resources that are off; disable it as a whole, or give shorter reasons",
		}
	}
	return it, nil
}

// refusing returns the switch that refuses the charges of an entity and a resource,
// or nil. own holds the switches of the entity, all those of all entities.
func refusing(own, all rules.Switches, entity, resource string) *limiter.Switch {
	if s := own.Refusing([]string{entity}, resource); s != nil {
		return s
	}
	return all.Refusing([]string{entity}, resource)
}

// readSwitches returns the switches of an entity, or of all entities if entity is
// "", as they were read with a bucket. If the cached ones differ, the next call
// reads them.
func (r *Repository) readSwitches(entity string, cached rules.Switches, items map[key]item) rules.Switches {
	k := r.switchFact(entity)
	off := decodeSwitches(entity, items[k.key()])
	if !maps.EqualFunc(off, cached, sameSwitch) {
		r.cache.evict(k)
		r.seen.set(k, off)
	}
	return off
}

func sameSwitch(a, b limiter.Switch) bool {
	return a.Scope == b.Scope && a.Reason == b.Reason && a.Since.Equal(b.Since)
}

// recentlyOff returns the switch that refuses the charges of an entity and a
// resource, if the cache has it and it is no older than maxFactAge.
func (r *Repository) recentlyOff(now int64, entity, resource string) *limiter.Switch {
	at := r.moment(now)
	own, all := r.cache.recent(at, maxFactAge, r.switchFact(entity)), r.cache.recent(at, maxFactAge, r.switchFact(""))
	namespace := r.cache.recent(at, r.cache.life, r.namespaceFact())
	// A deleted namespace is not found, whatever is off.
	if own == nil || all == nil || namespace == nil || !namespace.active {
		return nil
	}
	return refusing(own.off, all.off, entity, resource)
}
