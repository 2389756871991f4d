package plot

// layout spreads the windows of a span over columns. Each window gets the same
// number of columns; if there are more windows than columns, each column gets
// about the same number of windows.
type layout struct {
	span
	columns int
	repeat  int // columns per window; 0 if windows are merged
}

// minColumns is the minimum number of columns of a chart. A narrower terminal
// shows the left part.
const minColumns = 10

func newLayout(s span, room int) layout {
	room = max(room, minColumns)
	if n := s.windows(); n <= int64(room) {
		repeat := room / int(n)
		return layout{s, int(n) * repeat, repeat}
	}

	return layout{s, room, 0}
}

func (l layout) merged() bool { return l.columns > 0 && l.repeat == 0 }

// each returns the average number of windows per column.
func (l layout) each() float64 { return float64(l.windows()) / float64(l.columns) }

// column returns the first column of a window.
func (l layout) column(window int64) int {
	i := window - l.first

	// This is the last column that begins at the window or before it, as size
	// computes the beginnings.
	if l.merged() {
		return int(((i+1)*int64(l.columns) - 1) / l.windows())
	}
	return int(i) * l.repeat
}

// size returns the number of windows that are merged in a column.
func (l layout) size(column int) int64 {
	begin := func(c int) int64 { return int64(c) * l.windows() / int64(l.columns) }
	return begin(column+1) - begin(column)
}
