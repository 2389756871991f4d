package infra

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// LoadSummary describes a load stack that ListLoads found.
type LoadSummary struct {
	Name    string    `json:"name" doc:"name of the load stack"`
	Target  string    `json:"target" doc:"name of the stack that it tests"`
	Region  string    `json:"region" doc:"AWS region"`
	Status  string    `json:"status" doc:"status in CloudFormation"`
	Version string    `json:"version" doc:"version that deployed it"`
	Created time.Time `json:"created" doc:"time of creation"`
}

// ListLoads returns the load stacks in the account and region, sorted by name. It
// returns the errors of List.
func ListLoads(ctx context.Context, opts *Options) ([]LoadSummary, error) {
	const op = "list"
	s, err := newSession(ctx, op, opts)
	if err != nil {
		return nil, err
	}
	s.kind = typeLoad

	found := []LoadSummary{}
	for stack, err := range s.allStacks(ctx) {
		if err != nil {
			return nil, translateError(ctx, op, err)
		}

		tags := tagsOf(stack)
		if tags[tagManagedBy] != manager || tags[tagType] != typeLoad || stateOf(&stack) == missing {
			continue
		}

		found = append(found, LoadSummary{
			Name: aws.ToString(stack.StackName), Target: tags[tagName], Region: s.region,
			Status:  string(stack.StackStatus),
			Version: tags[tagVersion], Created: aws.ToTime(stack.CreationTime),
		})
	}

	slices.SortFunc(found, func(a, b LoadSummary) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}
