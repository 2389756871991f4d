package dynamo

import (
	"testing"

	"github.com/aws/smithy-go/logging"
)

// A library prints nothing of its own accord. Whoever wants to see what the SDK
// says gives a configuration.
func TestTheSDKPrintsNothing(t *testing.T) {
	t.Setenv("AWS_REGION", "us-east-1")
	s := &store{}
	if err := s.newClients(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, silent := s.config.Logger.(logging.Nop); !silent {
		t.Errorf("%T", s.config.Logger)
	}
}
