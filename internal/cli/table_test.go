package cli

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/rogpeppe/go-internal/testscript"
)

const tableScripts = "testdata/script/table" // run on DynamoDB Local, which has no CloudFormation

// TestTableScripts runs commands on an endpoint that is only a DynamoDB, which
// they are told by a flag: nothing in the environment keeps a command without it
// from AWS but that its credentials are wrong.
func TestTableScripts(t *testing.T) {
	url := sharedEngine.URL(t)
	p := params(tableScripts, "none", func(env *testscript.Env) error {
		for name, value := range map[string]string{
			"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1", "ENDPOINT": url,
			"TABLE": "cli-" + strings.ToLower(rand.Text())[:12], "XDG_DATA_HOME": env.WorkDir,
		} {
			env.Setenv(name, value)
		}
		return nil
	})
	p.Cmds["put"] = putItem
	testscript.Run(t, p)
}

// putItem is the script command "put TABLE PK SK [NAME=VALUE...]": an item of
// texts, as older releases stored them.
func putItem(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: put TABLE PK SK [NAME=VALUE...]")
	}
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	item := map[string]types.AttributeValue{"PK": text(args[1]), "SK": text(args[2])}
	for _, pair := range args[3:] {
		name, value, _ := strings.Cut(pair, "=")
		item[name] = text(value)
	}
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(ts.Getenv("ENDPOINT")),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	_, err := client.PutItem(context.Background(), &dynamodb.PutItemInput{TableName: &args[0], Item: item})
	ts.Check(err)
}
