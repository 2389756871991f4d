package limiter

// Wrapper is a [Repository] around another one. It has the methods of all optional
// interfaces, since it cannot know which of them its store has. [Optional] looks
// inside.
type Wrapper interface {
	// Unwrap returns the repository inside.
	Unwrap() Repository
}

// Optional returns repo as T, an optional interface of a [Repository], and reports
// whether repo has it. A [Wrapper] has it only if every repository inside has it
// too.
func Optional[T any](repo Repository) (T, bool) {
	found, ok := repo.(T)
	// A wrapper has the methods of all optional interfaces, so only its
	// store can say no.
	for ok {
		w, wraps := repo.(Wrapper)
		if !wraps {
			return found, true
		}
		repo = w.Unwrap()
		_, ok = repo.(T)
	}

	var none T
	return none, false
}
