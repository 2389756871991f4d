package llm

import (
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// decisive lists the fields of a request that decide about its cost.
var decisive = []string{
	"model", "stream", "stream_options", "n", "best_of", "max_completion_tokens", "max_tokens", "max_output_tokens",
	"messages", "prompt", "suffix", "input", "instructions", "system", "tools", "functions", "response_format", "text",
}

// checkSpelling rejects a field whose name differs from a decisive one only by
// case: an API that ignores case would read it, and this package does not.
func (o object) checkSpelling() error {
	for name := range o.fields {
		for _, known := range decisive {
			if name != known && strings.EqualFold(name, known) {
				return invalidBody(fmt.Sprintf("has the field %.40q, which must be written %q", name, known))
			}
		}
	}
	return nil
}

// readModel reads the model of a request, whose path may name one too.
func (o object) readModel(named string, model *string) error {
	o.decode("model", model)
	if named == "" {
		return nil
	}
	if o.raw("model") != nil && *model != named {
		return &limiter.InvalidError{Field: "model", Value: fmt.Sprintf("%.20s", *model), Reason: "must be the model that the path names, or be left out"}
	}
	*model = named
	return nil
}
