package limiter

import "iter"

// StatisticsReporter is an optional interface of a [Repository] that measures its
// own work. Package telemetry exports the values.
type StatisticsReporter interface {
	// Statistics iterates over the current values, summed over all views. The names
	// differ from each other and never change. A wrapper yields its own values even
	// if its store reports none, so that a type assertion finds the interface.
	// Statistics does no I/O, and works after Close.
	Statistics() iter.Seq[Statistic]
}

// Statistic is one value that a repository measures. The names store.billed_reads
// and store.billed_writes are reserved for the units that a service bills.
type Statistic struct {
	Name        string  // dotted, such as "store.requests"
	Unit        string  // a unit of UCUM: "s", or the counted thing in braces, such as "{request}"
	Description string  // one sentence without its full stop
	Total       bool    // the value counts from 0 and only grows; otherwise it goes up and down
	Value       float64 // NaN while unknown
}
