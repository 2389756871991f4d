package llm

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go"
)

const maxModel = 256 // bytes of the name of a model

// model returns the model of a request, whose path may name one too.
func (o object) model(named string) (string, error) {
	model, err := o.shortText("model", maxModel)
	// If path and body could differ, a client could call one model and pay for
	// another.
	switch {
	case named != "" && o.raw("model") != nil && (err != nil || model != named):
		return "", &limiter.InvalidError{
			Field: "model", Value: fmt.Sprintf("%.20s", model),
			Reason: "must be the model that the path names, or be left out",
		}
	case named != "":
		model = named
	}

	if model == "" || len(model) > maxModel || err != nil {
		return "", &limiter.InvalidError{
			Field: "model", Value: fmt.Sprintf("%.20s", model),
			Reason: fmt.Sprintf("must be the name of a model, with at most %d bytes", maxModel),
		}
	}
	return model, nil
}
