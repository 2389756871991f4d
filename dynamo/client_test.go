package dynamo

import (
	"testing"

	"github.com/aws/smithy-go/logging"
)

// A library does not print. A caller that wants the SDK's log passes a
// configuration.
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
