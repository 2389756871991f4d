package server

import (
	"fmt"
	"maps"
	"math"

	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// The largest numbers that package limiter takes: the capacity of a limit, what
// one call can adjust, and the seconds of a period.
const (
	maxCapacity = math.MaxInt64 / 1000
	maxAdjusted = maxCapacity / 1000
	maxSeconds  = 9_223_372_036
)

// namedSchemas returns the schemas that tags and parameters name. They allow what
// the handlers take: a client that keeps to them gets no 400.
func namedSchemas() object {
	const limitName = "[A-Za-z][A-Za-z0-9_.-]*"
	const resource = "[A-Za-z][A-Za-z0-9_./-]*"
	const entity = "[A-Za-z0-9][A-Za-z0-9_.:@-]*"

	name := object{
		"type": "string", "pattern": "^" + limitName + "$", "maxLength": 64,
		"not": object{"enum": []any{
			"entity_id", "resource", "window", "window_start", "total_events", "ttl",
			"PK", "SK", "GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK", "GSI3PK", "GSI3SK", "GSI4PK", "GSI4SK",
		}},
		"description": "Name of a limit. The names of stored attributes are reserved.",
	}
	notReserved := object{"enum": []any{"PK", "SK", "GSI4PK", "GSI4SK"}}
	toLimitName := object{"$ref": "#/components/schemas/LimitName"}

	return object{
		"EntityName": text(entity, 256, "ID of an entity"),
		"LimitName":  name,
		"LimitNames": object{
			"type": "array", "items": toLimitName, "uniqueItems": true, "maxItems": web.MaxFields,
		},
		"ResourceName": object{
			"type": "string", "pattern": "^" + resource + "$", "maxLength": 64, "not": notReserved,
			"description": "Name of a resource. The names of stored attributes are reserved.",
		},
		"ResourceOrAll": object{
			"type": "string", "pattern": "^(" + jsonview.AllResources + "|" + resource + ")$", "maxLength": 64,
			"not": notReserved, "description": "Name of a resource, or " + jsonview.AllResources + " for all resources",
		},
		"LeaseID": object{
			"type": "string", "minLength": 1, "description": "ID of a lease, as acquire returned it",
		},
		// HTTP removes the spaces at the ends of a field.
		"IdempotencyKey": text("[!-~]([ -~]*[!-~])?", 255, "Printable ASCII, without spaces at the ends"),
		"TopUpID":        text(entity, 128, "ID of a top-up"),
		"Reason":         object{"type": "string", "maxLength": 1000, "description": "For people"},
		// A ULID has no I, L, O and U.
		"EventID": text("[0-9A-HJKMNP-TV-Z]{26}", 26, "ID of an audit event"),
		"AuditSubject": object{
			"anyOf": []any{
				object{"$ref": "#/components/schemas/EntityName"},
				object{"const": "$SYSTEM"},
				object{
					"type": "string", "pattern": `^\$RESOURCE:` + resource + "$", "maxLength": len("$RESOURCE:") + 64,
					"not": object{"enum": []any{
						"$RESOURCE:PK", "$RESOURCE:SK", "$RESOURCE:GSI4PK", "$RESOURCE:GSI4SK",
					}},
				},
			},
			"description": "Subject of audit events",
		},
		"After":         object{"type": "string", "minLength": 1, "description": "Position in a list"},
		"UsagePosition": object{"type": "string", "minLength": 1, "description": "Position in a list of usage"},
		"Rows":          whole(1, maxRows, "Number of rows"),
		"Moment": object{
			"anyOf": []any{
				object{"type": "string", "format": "date"},
				object{"type": "string", "format": "date-time"},
				object{"type": "string", "pattern": agePattern},
			},
			"description": "A day, a time, or an age such as 24h or 7d",
		},

		"Amounts":      amounts(1, 0, math.MaxInt64),
		"SomeAmounts":  amounts(0, 0, math.MaxInt64),
		"TopUpAmounts": amounts(1, 1, maxAdjusted),
		"Differences":  amounts(0, -maxAdjusted, maxAdjusted),
		"CallLimits": object{
			"type": "array", "items": object{"oneOf": []any{rateSchema(), quotaSchema()}},
			"minItems": 1, "maxItems": 24, "uniqueItems": true,
			"description": "Limits, each a rate (name, capacity, refill_amount, refill_period_seconds) " +
				"or a quota (name, capacity, window, zone), with shadow if it never refuses. Each name occurs once",
		},
	}
}

// text returns the schema of a string that matches a whole pattern.
func text(pattern string, longest int, description string) object {
	return object{"type": "string", "pattern": "^" + pattern + "$", "maxLength": longest, "description": description}
}

// whole returns the schema of a whole number.
func whole(least, most int64, description string) object {
	n := object{"type": "integer", "format": "int64", "minimum": least, "maximum": most}
	if description != "" {
		n["description"] = description
	}
	return n
}

// amounts returns the schema of tokens by limit.
func amounts(fewest int, least, most int64) object {
	return object{
		"type": "object", "propertyNames": object{"$ref": "#/components/schemas/LimitName"},
		"additionalProperties": whole(least, most, ""), "minProperties": fewest, "maxProperties": web.MaxFields,
		"description": fmt.Sprintf("Tokens by limit, from %d to %d", least, most),
	}
}

// rateSchema returns the schema of a rate that a call carries.
func rateSchema() object {
	return object{
		"type": "object", "title": "Rate", "additionalProperties": false,
		"required": []any{"name", "capacity", "refill_amount", "refill_period_seconds"},
		"properties": object{
			"name":                  object{"$ref": "#/components/schemas/LimitName"},
			"capacity":              whole(1, maxCapacity, "maximum number of tokens (burst)"),
			"refill_amount":         whole(1, maxCapacity, "tokens refilled every period"),
			"refill_period_seconds": whole(1, maxSeconds, "length of the period"),
			"shadow":                object{"type": "boolean", "description": "whether the limit never refuses"},
			"window":                object{"const": "", "description": "empty or absent"},
			"zone":                  object{"const": "", "description": "empty or absent"},
		},
	}
}

// quotaSchema returns the schema of a quota that a call carries. The windows of an
// hour are in UTC, so they have no zone.
func quotaSchema() object {
	fields := func(window object, more object) object {
		properties := object{
			"name":                  object{"$ref": "#/components/schemas/LimitName"},
			"capacity":              whole(1, maxCapacity, "tokens in each window"),
			"refill_amount":         whole(0, 0, "0 or absent"),
			"refill_period_seconds": whole(0, 0, "0 or absent"),
			"window":                window,
			"shadow":                object{"type": "boolean", "description": "whether the limit never refuses"},
		}
		maps.Copy(properties, more)
		return object{
			"type": "object", "additionalProperties": false, "required": []any{"name", "capacity", "window"},
			"properties": properties,
		}
	}
	zone := text("([A-Za-z][A-Za-z0-9_+/-]*)?", 64, "IANA zone, such as Europe/Berlin; empty or absent for UTC")
	utc := object{"const": "", "description": "empty or absent, since an hour is in UTC"}
	return object{"title": "Quota", "oneOf": []any{
		fields(object{"type": "string", "enum": []any{"hour"}}, object{"zone": utc}),
		fields(object{"type": "string", "enum": []any{"day", "week", "month", "year"}}, object{"zone": zone}),
	}}
}

// bodyRules returns the rules of bodies in which one field depends on another, by
// the name of the schema.
func bodyRules() map[string]object {
	all := object{"properties": object{"all": object{"const": true}}, "required": []any{"all"}}
	level := object{"oneOf": []any{
		object{"allOf": []any{all}, "not": object{"anyOf": []any{required("entity_id"), required("resource")}}},
		object{
			// A false value is the same as none.
			"properties": object{"all": object{"const": false}},
			"anyOf":      []any{required("entity_id"), required("resource")},
		},
	}}
	someAmount := func(field string) object {
		return object{"properties": object{field: object{"minProperties": 1}}, "required": []any{field}}
	}
	return map[string]object{
		"LevelRequest": level, "DisableRequest": level,
		"AdjustRequest": {"anyOf": []any{someAmount("used"), someAmount("adjust")}},
	}
}

func required(field string) object { return object{"required": []any{field}} }
