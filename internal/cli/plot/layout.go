package plot

// layout spreads the windows of a span over columns: each window gets the same
// number of columns, or, where there are more windows than columns, each column
// about the same number of windows.
type layout struct {
	span
	columns int
	repeat  int // columns of a window, 0 if windows are merged
}

// fewest is how many columns a chart has at least; a terminal that is too narrow
// for them shows the left part.
const fewest = 10

func newLayout(s span, room int) layout {
	room = max(room, fewest)
	if n := s.windows(); n <= int64(room) {
		repeat := room / int(n)
		return layout{s, int(n) * repeat, repeat}
	}
	return layout{s, room, 0}
}

func (l layout) merged() bool { return l.columns > 0 && l.repeat == 0 }

// each is how many windows a column shows.
func (l layout) each() float64 { return float64(l.windows()) / float64(l.columns) }

// column is the first one that shows a window.
func (l layout) column(window int64) int {
	i := window - l.first
	if l.merged() {
		return int(((i+1)*int64(l.columns) - 1) / l.windows())
	}
	return int(i) * l.repeat
}

// size is how many windows are merged in a column.
func (l layout) size(column int) int64 {
	begin := func(c int) int64 { return int64(c) * l.windows() / int64(l.columns) }
	return begin(column+1) - begin(column)
}
