package remedy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

func TestMissingCredentialsNeverReadAsDenied(t *testing.T) {
	const call = "operation error CloudFormation: DescribeStacks, get identity: get credentials: failed to " +
		"refresh cached credentials, "
	for reason, kept := range map[string]bool{
		"no EC2 IMDS role found, operation error ec2imds: GetMetadata, http response error StatusCode: 403, " +
			"request to EC2 IMDS failed": false,
		"no EC2 IMDS role found, operation error ec2imds: GetMetadata, access disabled to EC2 IMDS via client option": false,
		"operation error SSO: GetRoleCredentials, the SSO session has expired or is invalid":                          true,
		"no EC2 IMDS role found, operation error ec2imds: GetMetadata, request send failed, dial tcp " +
			"169.254.169.254:80: i/o timeout": false,
	} {
		err := errors.New(call + reason)
		if !remedy.IsWithoutCredentials(err) {
			t.Errorf("%v has credentials", err)
		}
		text := (&remedy.CredentialsError{Err: err}).Error()
		if !strings.HasPrefix(text, "no AWS credentials; set AWS_PROFILE") || strings.Contains(text, reason) != kept ||
			strings.Contains(text, "operation error CloudFormation") {
			t.Errorf("%s", text)
		}
	}
	if remedy.IsWithoutCredentials(errors.New("operation error DynamoDB: Query, AccessDeniedException: no")) {
		t.Error("an answer of AWS counts as missing credentials")
	}
}
