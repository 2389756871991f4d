package infra

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// Found is a stack that List found. Versions are "" where the stack does not
// say.
type Found struct {
	Stack         string    `json:"stack"` // its name
	Name          string    `json:"name"`  // the name its owner knows, which older tools put a prefix before
	Region        string    `json:"region"`
	Status        string    `json:"status"`
	Type          string    `json:"type"`
	Version       string    `json:"version"`
	LambdaVersion string    `json:"lambda_version"`
	SchemaVersion string    `json:"schema_version"`
	Created       time.Time `json:"created"`
	Updated       time.Time `json:"updated,omitzero"` // zero if it never was
}

// Healthy tells whether the last work on the stack is done.
func (f Found) Healthy() bool {
	return f.Status == string(cfn.StackStatusCreateComplete) || f.Status == string(cfn.StackStatusUpdateComplete)
}

// InProgress tells whether something is being done with the stack.
func (f Found) InProgress() bool { return isBusyStatus(f.Status) }

// Failed tells whether the last work on the stack has failed, or is being undone.
func (f Found) Failed() bool {
	return strings.Contains(f.Status, "FAILED") || strings.Contains(f.Status, "ROLLBACK")
}

// List finds the stacks of zae-limiter in the account and region, by name.
// *limiter.UnavailableError when AWS cannot be asked or refuses.
func List(ctx context.Context, opts *Options) ([]Found, error) {
	s, err := newSession(ctx, "list", opts)
	if err != nil {
		return nil, err
	}
	found, err := s.list(ctx)
	return found, failure(ctx, "list", err)
}

func (s *session) list(ctx context.Context) ([]Found, error) {
	var found []Found
	pages := cloudformation.NewDescribeStacksPaginator(s.stacks, &cloudformation.DescribeStacksInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, stack := range page.Stacks {
			if f, ok := s.found(stack); ok {
				found = append(found, f)
			}
		}
	}
	slices.SortFunc(found, func(a, b Found) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Stack, b.Stack)) })
	return found, nil
}

func (s *session) found(stack cfn.Stack) (Found, bool) {
	tags, name := tagsOf(stack), aws.ToString(stack.StackName)
	f := Found{
		Stack: name, Name: cmp.Or(tags[tagName], strings.TrimPrefix(name, legacyPrefix)), Region: s.region,
		Status: string(stack.StackStatus), Type: cmp.Or(tags[tagType], typeLimiter),
		Version: tags[tagVersion], LambdaVersion: tags[tagLambdaVersion], SchemaVersion: tags[tagSchemaVersion],
		Created: aws.ToTime(stack.CreationTime), Updated: aws.ToTime(stack.LastUpdatedTime),
	}
	ours := tags[tagManagedBy] == manager || strings.HasPrefix(name, legacyPrefix)
	return f, ours && f.Type == typeLimiter && stateOf(&stack) != missing
}
