package remedy

import "strings"

// CredentialsError reports that the SDK found no credentials for a call, which was
// not sent.
type CredentialsError struct {
	Err error // of the SDK
}

// gettingCredentials precedes the reason in errors of the SDK.
const gettingCredentials = "get credentials: "

// IsWithoutCredentials reports whether err says that the SDK could not get
// credentials.
func IsWithoutCredentials(err error) bool { return strings.Contains(err.Error(), gettingCredentials) }

// Error says how to provide credentials. It omits the SDK's reason if the last
// place that the SDK searches, the metadata of a machine in EC2, is what failed:
// few programs run there, and its "403" and "access disabled" read as if the
// caller's credentials were refused.
func (e *CredentialsError) Error() string {
	const advice = "no AWS credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or " +
		"run under a role"

	text := e.Err.Error()
	if strings.Contains(text, "no EC2 IMDS role found") {
		return advice
	}
	if _, reason, found := strings.Cut(text, gettingCredentials); found {
		// The text in front of the reason is about the operation, which the
		// caller reports.
		text = reason
	}

	return advice + ": " + text
}

// Unwrap returns the error of the SDK.
func (e *CredentialsError) Unwrap() error { return e.Err }
