package main

import (
	"fmt"
	"slices"
)

// series holds one value for each round.
type series []float64

// over returns the quotient of each round.
func (s series) over(t series) series {
	out := make(series, len(s))
	for i := range s {
		out[i] = s[i] / t[i]
	}
	return out
}

func (s series) median() float64 { return s.quantile(0.5) }

// quantile interpolates between the two nearest values.
func (s series) quantile(q float64) float64 {
	sorted := slices.Sorted(slices.Values(s))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// show returns the median and, in brackets, the quartiles.
func (s series) show(format string) string {
	return fmt.Sprintf(format+" ["+format+" .. "+format+"]", s.median(), s.quantile(0.25), s.quantile(0.75))
}

func (s series) nanos() string { return s.show("%.0f") }

func (s series) micros() string { return s.per(nanosPerMicro).show("%.1f") }

const nanosPerMicro = 1000

// per returns the values in a larger unit.
func (s series) per(unit float64) series {
	out := make(series, len(s))
	for i := range s {
		out[i] = s[i] / unit
	}
	return out
}

func (s series) ratio() string { return s.show("%.2f") }
