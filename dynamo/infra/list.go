package infra

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// StackSummary describes a stack that List found. A version that the stack does not
// record is "".
type StackSummary struct {
	Stack string `json:"stack"` // the name of the stack
	// Name is the name for users. Older tools put a prefix before it.
	Name          string    `json:"name"`
	Region        string    `json:"region"`
	Status        string    `json:"status"`
	Type          string    `json:"type"`
	Version       string    `json:"version"`
	LambdaVersion string    `json:"lambda_version"`
	SchemaVersion string    `json:"schema_version"`
	Created       time.Time `json:"created"`
	Updated       time.Time `json:"updated,omitzero"` // zero if it was never updated
}

// Healthy reports whether the last operation on the stack succeeded.
func (f StackSummary) Healthy() bool {
	return f.Status == string(cfn.StackStatusCreateComplete) || f.Status == string(cfn.StackStatusUpdateComplete)
}

// InProgress reports whether an operation on the stack is in progress.
func (f StackSummary) InProgress() bool { return isBusyStatus(f.Status) }

// Failed reports whether the last operation on the stack failed or is being rolled
// back.
func (f StackSummary) Failed() bool {
	return strings.Contains(f.Status, "FAILED") || strings.Contains(f.Status, "ROLLBACK")
}

// List returns the stacks of zae-limiter in the account and region, sorted by name.
// It returns a *limiter.UnavailableError if AWS cannot be reached or denies access.
func List(ctx context.Context, opts *Options) ([]StackSummary, error) {
	s, err := newSession(ctx, "list", opts)
	if err != nil {
		return nil, err
	}
	found, err := s.list(ctx)
	return found, translateError(ctx, "list", err)
}

func (s *session) list(ctx context.Context) ([]StackSummary, error) {
	var found []StackSummary
	for stack, err := range s.allStacks(ctx) {
		if err != nil {
			return nil, err
		}
		if f, ok := s.summary(stack); ok {
			found = append(found, f)
		}
	}

	slices.SortFunc(found, func(a, b StackSummary) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Stack, b.Stack))
	})

	return found, nil
}

// allStacks iterates over all stacks in the account and region.
func (s *session) allStacks(ctx context.Context) iter.Seq2[cfn.Stack, error] {
	return func(yield func(cfn.Stack, error) bool) {
		pages := cloudformation.NewDescribeStacksPaginator(s.stacks, &cloudformation.DescribeStacksInput{})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(cfn.Stack{}, err)
				return
			}
			for _, stack := range page.Stacks {
				if !yield(stack, nil) {
					return
				}
			}
		}
	}
}

// summary returns the summary of a stack, and whether it belongs to zae-limiter.
func (s *session) summary(stack cfn.Stack) (StackSummary, bool) {
	tags, name := tagsOf(stack), aws.ToString(stack.StackName)
	// Stacks of older tools have a prefix in their name, and lack some or all
	// of the tags.
	f := StackSummary{
		Stack: name, Name: cmp.Or(tags[tagName], strings.TrimPrefix(name, legacyPrefix)), Region: s.region,
		Status: string(stack.StackStatus), Type: cmp.Or(tags[tagType], typeLimiter),
		Version: tags[tagVersion], LambdaVersion: tags[tagLambdaVersion], SchemaVersion: tags[tagSchemaVersion],
		Created: aws.ToTime(stack.CreationTime), Updated: aws.ToTime(stack.LastUpdatedTime),
	}
	ours := tags[tagManagedBy] == manager || strings.HasPrefix(name, legacyPrefix)
	// Load stacks have a list of their own, ListLoads.
	return f, ours && f.Type == typeLimiter && stateOf(&stack) != missing
}

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
