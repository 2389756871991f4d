package loadtest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// chart is a diagram over time. Its SVG stretches with the page, so the labels
// of the axes are text beside it.
type chart struct {
	Title string
	Lines []line
	X, Y  []tick
}

// line is a line or, in a stack, an area. Its colour follows from Class.
type line struct {
	Name, Class string
	Points      string // points of the line, as SVG writes them
	Area        string // outline of the area; "" for a line alone
}

// tick is a label of an axis at a position in percent.
type tick struct {
	At    float64
	Label string
}

// FromTop returns the position of a tick on the y axis in the coordinates of the
// SVG.
func (t tick) FromTop() float64 { return chartHeight - t.At }

// series is one value for each point of a test.
type series struct {
	name, class string
	values      []float64
}

// Size of the SVG's own coordinates.
const chartWidth, chartHeight = 1000.0, 100.0

// newChart draws series over times. An area of a stack ends where the next one
// begins.
func newChart(title string, times []time.Duration, stacked bool, label func(float64) string, all ...series) chart {
	c := chart{Title: title}
	if stacked {
		all = stack(all)
	}

	highest := 0.0
	for _, s := range all {
		for _, v := range s.values {
			highest = max(highest, v)
		}
	}

	// A step of a quarter of the highest value gives about four labels above 0.
	step := niceStep(highest / 4)
	top := step * math.Ceil(highest/step)
	// A chart without any value above 0 still needs a scale to divide by.
	if highest == 0 {
		step, top = 1, 1
	}

	// The tolerance keeps the top label in spite of the rounding of floats.
	for i := 0; float64(i)*step <= top*1.0001; i++ {
		c.Y = append(c.Y, tick{100 * float64(i) * step / top, label(float64(i) * step)})
	}

	end := times[len(times)-1]
	c.X = timeTicks(end)

	for i, s := range all {
		l := line{Name: s.name, Class: s.class, Points: strings.Join(drawPoints(times, s.values, end, top), " ")}
		if stacked {
			// The lowest area of a stack ends at the axis.
			below := []string{fmt.Sprintf("0,%g", chartHeight), fmt.Sprintf("%g,%g", chartWidth, chartHeight)}
			if i+1 < len(all) {
				below = drawPoints(times, all[i+1].values, end, top)
			}
			// The outline runs along the line and back, so its lower edge is
			// reversed.
			slices.Reverse(below)
			l.Area = l.Points + " " + strings.Join(below, " ")
		}

		c.Lines = append(c.Lines, l)
	}

	return c
}

// stack adds the values of earlier series to later ones, and returns the sums in
// the order of drawing: the highest first.
func stack(all []series) []series {
	out := make([]series, len(all))
	for i, s := range all {
		sums := make([]float64, len(s.values))
		for j, v := range s.values {
			if sums[j] = v; i > 0 {
				sums[j] += out[len(all)-i].values[j]
			}
		}
		out[len(all)-1-i] = series{s.name, s.class, sums}
	}
	return out
}

// drawPoints returns the points of a line. Its first value counts from the
// start.
func drawPoints(times []time.Duration, values []float64, end time.Duration, top float64) []string {
	y := func(v float64) float64 { return chartHeight * (1 - v/top) }
	points := []string{fmt.Sprintf("0,%.2f", y(values[0]))}
	for i, v := range values {
		points = append(points, fmt.Sprintf("%.2f,%.2f", chartWidth*float64(times[i])/float64(end), y(v)))
	}
	return points
}

// niceStep returns the smallest of 1, 2 and 5 times a power of ten that is at
// least f.
func niceStep(f float64) float64 {
	if f <= 0 {
		return 1
	}

	power := math.Pow(10, math.Floor(math.Log10(f)))
	for _, n := range []float64{1, 2, 5} {
		// The tolerance keeps a value such as 5.0000001 at step 5.
		if n*power >= f*0.9999 {
			return n * power
		}
	}
	return 10 * power
}

// timeTicks returns at most seven ticks of a time axis.
func timeTicks(end time.Duration) []tick {
	const most = 6

	step := 24 * time.Hour
	for _, nice := range []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	} {
		if end/nice <= most {
			step = nice
			break
		}
	}

	// A test longer than six days needs longer steps than the list has.
	for end/step > most {
		step *= 2
	}

	var ticks []tick
	for t := time.Duration(0); t <= end; t += step {
		ticks = append(ticks, tick{100 * float64(t) / float64(end), timeLabel(t)})
	}
	return ticks
}

// timeLabel formats a time on an axis, such as 0, 30s, 1m30s or 2h.
func timeLabel(t time.Duration) string {
	if t == 0 {
		return "0"
	}

	text := t.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
