package llm

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go"
)

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
