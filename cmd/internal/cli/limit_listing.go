package cli

import (
	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

// kindColumns are the columns of limits that are not plain rates.
//
// A shadow limit must not look like an enforced one, so its mark is kept. A narrow
// terminal leaves out the end of a window, since the time until the bucket is full
// says roughly the same.
var kindColumns = []kit.Column{{Title: "mode", Whole: true, Keep: true, Extra: true}, {
	Title: "window end", Whole: true, Spare: true, Extra: true,
}}

// kindCells returns the cells of kindColumns.
func kindCells(s limiter.Status) []kit.Cell {
	return []kit.Cell{mode(s.Limit), kit.Moment(s.WindowEnd)}
}

// mode returns the cell that marks a shadow limit.
func mode(l limiter.Limit) kit.Cell {
	if l.IsShadow {
		return kit.Text("shadow")
	}
	return kit.Text("")
}

// limitColumns are the columns of stored limits.
var limitColumns = []kit.Column{
	{Title: "limit"}, {Title: "rate", Right: true}, {Title: "burst", Right: true}, kindColumns[0],
}

func limitRow(l limiter.Limit) []kit.Cell {
	return []kit.Cell{kit.Text(l.Name), kit.Rate(l), kit.Amount(l.Name, l.Capacity), mode(l)}
}

// limitListing describes how to print stored limits.
func limitListing(nothing string) kit.Listing[limiter.Limit] {
	return kit.Listing[limiter.Limit]{Columns: limitColumns, Row: limitRow, Object: func(l limiter.Limit) any {
		return jsonview.NewLimit(l)
	}, Nothing: nothing}
}
