package llm

// averages holds the average length of an answer by entity and model. A call that
// asks for several answers counts as one of their average length.
type averages struct{ byCaller *recent[caller, float64] }

type caller struct{ entity, model string }

// weight is the share of the latest answer in an average, so that about the last
// ten answers count.
const weight = 0.2

func newAverages(limit int) averages { return averages{newRecent[caller, float64](limit)} }

// learn adds the length of an answer.
func (a averages) learn(entity, model string, output float64) {
	a.byCaller.update(caller{entity, model}, func(before float64, known bool) float64 {
		if !known {
			return output
		}
		return before + weight*(output-before)
	})
}

// output returns the average, and whether there is one.
func (a averages) output(entity, model string) (float64, bool) {
	return a.byCaller.get(caller{entity, model})
}
