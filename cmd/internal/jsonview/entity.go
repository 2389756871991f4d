package jsonview

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Entity is an entity as JSON.
type Entity struct {
	ID        string            `json:"entity_id" doc:"ID of the entity"`
	Name      string            `json:"name" doc:"display name"`
	Parent    *string           `json:"parent_id" doc:"ID of the parent"`
	Cascade   bool              `json:"cascade" doc:"whether the parent is charged too"`
	Metadata  map[string]string `json:"metadata" doc:"metadata of the entity"`
	CreatedAt time.Time         `json:"created_at" doc:"time of creation"`
	Disabled  []Switch          `json:"disabled,omitempty"`
}

// FieldDocs returns the texts that are too long for tags.
func (Entity) FieldDocs() map[string]string { return map[string]string{"disabled": switchesDoc} }

// NewEntity returns an entity as JSON.
func NewEntity(e limiter.Entity) Entity {
	metadata := e.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	return Entity{e.ID, e.Name, OrNull(e.Parent), e.Cascade, metadata, e.CreatedAt.UTC(), nil}
}

// EntityID is the ID of an entity as JSON.
type EntityID struct {
	ID string `json:"entity_id" doc:"ID of the entity"`
}

// Resource is a resource as JSON.
type Resource struct {
	Name     string  `json:"resource" doc:"name of the resource; _default_ stands for all resources"`
	Disabled *Switch `json:"disabled,omitempty" doc:"reason and since, if the resource is off; absent if not"`
}

// Namespace is a namespace as JSON.
type Namespace struct {
	Name      string     `json:"name" doc:"name, which is free again after deletion"`
	ID        string     `json:"namespace_id" doc:"permanent ID"`
	Status    string     `json:"status" doc:"active, deleted or purging"`
	CreatedAt *time.Time `json:"created_at" doc:"time of registration"`
	DeletedAt *time.Time `json:"deleted_at" doc:"time of deletion"`
}

// NewNamespace returns a namespace as JSON.
func NewNamespace(n limiter.Namespace) Namespace {
	return Namespace{n.Name, n.ID, StateOf(n), TimeOrNull(n.CreatedAt), TimeOrNull(n.DeletedAt)}
}

// StateOf returns the state of a namespace: active, deleted or purging.
func StateOf(n limiter.Namespace) string {
	switch {
	case n.Purging:
		return "purging"
	case !n.DeletedAt.IsZero():
		return "deleted"
	}
	return "active"
}
