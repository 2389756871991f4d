package dynamotest

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// Said returns the text of an error with what its remedies are about in parentheses
// behind each, such as infra.Deploy(my-app us-east-1).
func Said(err error) string { return SaidBy(err.Error(), remedy.Of(err)) }

// SaidBy does the same for a text that names remedies.
func SaidBy(text string, remedies []*remedy.Remedy) string {
	for _, r := range remedies {
		words := append(append([]string{r.Name}, r.Args...), r.Region, r.Endpoint)
		about := strings.TrimSpace(strings.Join(words, " "))
		text = strings.Replace(text, r.Error(), r.Error()+"("+about+")", 1)
	}
	return text
}
