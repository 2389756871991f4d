package llm

// averages holds the average length of answers by entity and model.
type averages struct{ byCaller *recent[caller, float64] }

type caller struct{ entity, model string }

// weight is the share of the latest answer in an average, so that about the last
// ten answers count.
const weight = 0.2

func newAverages(limit int) averages { return averages{newRecent[caller, float64](limit)} }

// learn adds the length of an answer.
func (a averages) learn(entity, model string, output int64) {
	a.byCaller.update(caller{entity, model}, func(before float64, known bool) float64 {
		if !known {
			return float64(output)
		}
		return before + weight*(float64(output)-before)
	})
}

// output returns the average, rounded up, and whether there is one.
func (a averages) output(entity, model string) (int64, bool) {
	average, ok := a.byCaller.get(caller{entity, model})
	return int64(average + 0.999), ok
}
