package dynamo

import (
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// Remedy is what mends the fault of an error of this package or of package infra:
// the call that the text of the error names, and what it is about. [errors.As] finds
// it as a *Remedy.
type Remedy = remedy.Remedy

// remedy returns a remedy for the table in its region and at its endpoint.
func (s *store) remedy(call remedy.Call, args ...string) *Remedy {
	return &Remedy{
		Call: call, Name: s.table, Args: args,
		Region: s.opts.Region, Endpoint: aws.ToString(s.client.Options().BaseEndpoint),
	}
}

// creation returns the remedy that creates the table. In an AWS account it deploys a
// stack. On a custom endpoint it creates the table alone, since few local engines
// have CloudFormation.
func (s *store) creation() *Remedy {
	if r := s.remedy(remedy.CreateTable); r.Endpoint != "" {
		return r
	}
	return s.remedy(remedy.Deploy)
}
