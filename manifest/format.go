package manifest

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// YAML returns the manifest as YAML, which Parse reads. Equal manifests have
// equal YAML. Limits of money have their short form, in dollars.
func (m *Manifest) YAML() ([]byte, error) {
	d := fileDialect()
	d.dollars = true
	return m.encode(d).yaml()
}

// JSON returns the manifest as indented JSON, which Parse reads. It is for
// programs: every limit is an object of numbers, money in millionths of a dollar.
func (m *Manifest) JSON() ([]byte, error) { return m.encode(fileDialect()).indentedJSON() }

// Hash returns "sha256:" and the hash of the declared levels in a canonical
// form. It is equal to the hash of zae-limiter for Python.
func (m *Manifest) Hash() string {
	sum := sha256.Sum256([]byte(m.encode(fileDialect()).sorted().json()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

//go:embed schema.json
var schema string

// Schema returns a JSON Schema of manifests, for editors. It accepts the
// manifests that [Parse] accepts, except for rules that a schema cannot express,
// such as unique keys.
func Schema() string { return schema }

// dialect is the spelling of a manifest's keys and values.
type dialect struct {
	namespace, system, resources, entities      string
	onUnavailable, limits                       string
	capacity, burst, refillAmount, refillPeriod string
	window, zone, shadow                        string

	// short means that a limit may have the short form of the command line,
	// such as 100/min:150.
	short   bool
	dollars bool // a limit of money is written in the short form, such as $50@month
	// textNumbers means that numbers and booleans may be text: CloudFormation
	// writes 10000000 as 1.0E7.
	textNumbers bool
}

// fileDialect returns the dialect of manifest files.
func fileDialect() dialect {
	return dialect{
		namespace: "namespace", system: "system", resources: "resources", entities: "entities",
		onUnavailable: "on_unavailable", limits: "limits",
		capacity: "capacity", burst: "burst", refillAmount: "refill_amount", refillPeriod: "refill_period",
		window: "window", zone: "zone", shadow: "shadow",
		short: true,
	}
}

// stackDialect returns the dialect of the properties of a CloudFormation
// resource. All scalars arrive as text. There is no burst: Capacity is always
// the capacity.
func stackDialect() dialect {
	return dialect{
		namespace: "Namespace", system: "System", resources: "Resources", entities: "Entities",
		onUnavailable: "OnUnavailable", limits: "Limits",
		capacity: "Capacity", refillAmount: "RefillAmount", refillPeriod: "RefillPeriod",
		window: "Window", zone: "Zone", shadow: "Shadow",
		textNumbers: true,
	}
}

// encode returns the manifest in a dialect. Every limit has all its fields, except
// that only a shadow limit has shadow, and only a zone other than UTC is there. In
// a dialect with dollars, a limit of money is a text.
func (m *Manifest) encode(d dialect) object {
	var o object
	if m.Namespace != "" {
		o = o.add(m.Namespace, d.namespace)
	}

	for _, level := range m.sorted().Levels {
		path := d.path(level.Scope)
		if level.OnUnavailable != "" {
			o = o.add(string(level.OnUnavailable), append(path, d.onUnavailable)...)
		}
		o = o.add(d.encodeLimits(level.Limits), append(path, d.limits)...)
	}
	return o
}

// path returns the keys that lead to the level of s.
func (d dialect) path(s limiter.Scope) []string {
	switch Level(s) {
	case "entity":
		return []string{d.entities, s.Entity, d.resources, resourceKey(s)}
	case "resource":
		return []string{d.resources, s.Resource}
	}
	return []string{d.system}
}

func (d dialect) encodeLimits(limits []limiter.Limit) object {
	o := object{}
	for _, l := range limits {
		if d.dollars && l.IsMoney() {
			o = append(o, pair{l.Name, inDollars(l)})
			continue
		}
		o = append(o, pair{l.Name, d.encodeLimit(l)})
	}
	return o
}

// inDollars returns a limit of money in its short form, such as $50@month.
func inDollars(l limiter.Limit) string {
	dollars := func(n int64) string { return "$" + figure.Decimal(n) }
	text := dollars(l.Refill) + "/" + figure.Period(l.Period)
	switch {
	case l.IsQuota():
		text = dollars(l.Capacity) + "@" + l.Window.String()
	case l.Capacity != l.Refill:
		text += ":" + dollars(l.Capacity)
	}

	if l.Zone != "" {
		text += ":" + l.Zone
	}
	if l.IsShadow {
		text += ":shadow"
	}
	return text
}

func (d dialect) encodeLimit(l limiter.Limit) object {
	o := object{{d.capacity, d.encodeNumber(l.Capacity)}}
	if l.IsQuota() {
		o = append(o, pair{d.window, l.Window.String()})
	} else {
		o = append(o, pair{d.refillAmount, d.encodeNumber(l.Refill)}, pair{
			d.refillPeriod, d.encodeNumber(int64(l.Period / time.Second)),
		})
	}

	if l.Zone != "" {
		o = append(o, pair{d.zone, l.Zone})
	}
	if l.IsShadow {
		o = append(o, pair{d.shadow, d.encodeTrue()})
	}
	return o
}

// encodeTrue returns true, as text if the dialect has text numbers.
func (d dialect) encodeTrue() any {
	if d.textNumbers {
		return "true"
	}
	return true
}

// encodeNumber returns n, as text if the dialect has text numbers.
func (d dialect) encodeNumber(n int64) any {
	if d.textNumbers {
		return strconv.FormatInt(n, 10)
	}
	return n
}
