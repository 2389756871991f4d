package manifest

// dialect is how the words of a manifest are spelled.
type dialect struct {
	namespace, system, resources, entities      string
	onUnavailable, limits                       string
	capacity, burst, refillAmount, refillPeriod string

	short       bool     // a limit may be written as on the command line: rpm: 100/min:150
	textNumbers bool     // numbers are in quotes, or need not be: CloudFormation writes 10000000 as 1.0E7
	beside      []string // words for somebody else
}

// inFile is a manifest as people write it.
func inFile() dialect {
	return dialect{
		namespace: "namespace", system: "system", resources: "resources", entities: "entities",
		onUnavailable: "on_unavailable", limits: "limits",
		capacity: "capacity", burst: "burst", refillAmount: "refill_amount", refillPeriod: "refill_period",
		short: true,
	}
}

// inStack is one as the properties of a CloudFormation resource, all of whose
// scalars arrive as text. It has no burst: whoever writes properties says what
// the capacity is.
func inStack() dialect {
	return dialect{
		namespace: "Namespace", system: "System", resources: "Resources", entities: "Entities",
		onUnavailable: "OnUnavailable", limits: "Limits",
		capacity: "Capacity", refillAmount: "RefillAmount", refillPeriod: "RefillPeriod",
		textNumbers: true, beside: []string{propertyToken, propertyTimeout, propertyTable, propertySpaceID},
	}
}
