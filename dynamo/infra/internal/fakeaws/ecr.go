package fakeaws

import (
	"encoding/base64"
	"encoding/json"
	"slices"
)

// RegistryPassword is the password that GetAuthorizationToken returns.
const RegistryPassword = "registry-password"

// serveECR answers ECR.
func (c *Cloud) serveECR(r *Request) *Reply {
	switch r.Op {
	case "GetAuthorizationToken":
		return jsonReply(Tree{"authorizationData": []any{Tree{
			"authorizationToken": base64.StdEncoding.EncodeToString([]byte("AWS:" + RegistryPassword)),
			"proxyEndpoint":      "https://" + Registry,
		}}})
	case "DescribeImages":
		var in struct {
			RepositoryName string
			ImageIds       []struct{ ImageTag string }
		}
		if err := json.Unmarshal(r.Body, &in); err != nil {
			c.tb.Errorf("%s: %v", r.Op, err)
		}

		tags, ok := c.Images[in.RepositoryName]
		switch {
		case !ok:
			return ErrorReply(r, 400, "RepositoryNotFoundException", "The repository does not exist")
		case !slices.Contains(tags, in.ImageIds[0].ImageTag):
			return ErrorReply(r, 400, "ImageNotFoundException", "The image does not exist")
		}
		return jsonReply(Tree{"imageDetails": []any{Tree{"imageTags": tags}}})
	}

	c.tb.Errorf("no handler for %s", r.Op)
	return ErrorReply(r, 400, "InvalidAction", r.Op)
}

// Registry is the host of the repositories of a Cloud.
const Registry = AccountID + ".dkr.ecr." + Region + ".amazonaws.com"
