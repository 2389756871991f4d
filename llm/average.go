package llm

import "slices"

// averages holds the average length of an answer by entity and model, and for each
// model the averages of the entities that used it last. A call that asks for several
// answers counts as one of their average length.
type averages struct {
	byCaller *recent[caller, float64]
	byModel  *recent[string, []voice]
}

type caller struct{ entity, model string }

// voice is the average of one entity among those of a model.
type voice struct {
	entity string
	output float64
}

const (
	// weight is the share of the latest answer in an average, so that about the last
	// ten answers count. After an answer of 200 tokens, an average of 100 becomes 120.
	weight = 0.2
	voices = 8 // entities that the average of a model consists of
)

func newAverages(limit int) averages {
	return averages{newRecent[caller, float64](limit), newRecent[string, []voice](limit)}
}

// learn adds the length of an answer.
func (a averages) learn(entity, model string, output float64) {
	var own float64

	a.byCaller.update(caller{entity, model}, func(before float64, known bool) float64 {
		if own = output; known {
			own = before + weight*(output-before)
		}
		return own
	})

	a.byModel.update(model, func(before []voice, _ bool) []voice {
		after := slices.DeleteFunc(slices.Clone(before), func(v voice) bool { return v.entity == entity })
		// The entities are in the order of their last answer, so the first one
		// is out of date.
		if len(after) == voices {
			after = after[1:]
		}
		return append(after, voice{entity, own})
	})
}

// output returns the estimate for an entity: its own average, but never less than
// the average of the other entities that use the model, or the default if there are
// none. Otherwise a client could train its estimate down with small calls, and then
// run large ones in parallel.
func (a averages) output(entity, model string, byDefault float64) float64 {
	own, _ := a.byCaller.get(caller{entity, model})
	all, _ := a.byModel.get(model)

	var sum, n float64
	for _, v := range all {
		if v.entity != entity {
			sum += v.output
			n++
		}
	}

	if n == 0 {
		return max(own, byDefault)
	}
	return max(own, sum/n)
}
