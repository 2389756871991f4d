package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// YAML is the manifest as a file: the same for the same declarations, and what
// Parse reads back.
func (m *Manifest) YAML() ([]byte, error) { return m.form(inFile()).yaml() }

// JSON is the same as JSON, which Parse reads too.
func (m *Manifest) JSON() ([]byte, error) { return m.form(inFile()).indented() }

// Hash is "sha256:" and the hash of what is declared, however it was written:
// that of zae-limiter for Python.
func (m *Manifest) Hash() string {
	sum := sha256.Sum256([]byte(m.form(inFile()).sorted().json()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// form is the manifest in the words of a dialect, every limit with all its
// fields.
func (m *Manifest) form(words dialect) object {
	var o object
	if m.Namespace != "" {
		o = o.under(m.Namespace, words.namespace)
	}
	for _, level := range m.sorted().Levels {
		path := words.path(level.Scope)
		if level.OnUnavailable != "" {
			o = o.under(string(level.OnUnavailable), append(path, words.onUnavailable)...)
		}
		o = o.under(words.limitForms(level.Limits), append(path, words.limits)...)
	}
	return o
}

// path is where a dialect declares a scope.
func (d dialect) path(s limiter.Scope) []string {
	switch Level(s) {
	case "entity":
		return []string{d.entities, s.Entity, d.resources, shownResource(s)}
	case "resource":
		return []string{d.resources, s.Resource}
	}
	return []string{d.system}
}

func (d dialect) limitForms(limits []limiter.Limit) object {
	o := object{}
	for _, l := range limits {
		o = append(o, pair{l.Name, object{
			{d.capacity, d.numberForm(l.Capacity)},
			{d.refillAmount, d.numberForm(l.Refill)},
			{d.refillPeriod, d.numberForm(int64(l.Period / time.Second))},
		}})
	}
	return o
}

// numberForm is a number, as text where that is allowed.
func (d dialect) numberForm(n int64) any {
	if d.textNumbers {
		return strconv.FormatInt(n, 10)
	}
	return n
}
