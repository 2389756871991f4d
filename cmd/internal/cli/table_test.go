package cli_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/clitest"
)

const tableScripts = "testdata/script/table" // run on DynamoDB Local, which has no CloudFormation

// TestTableScripts runs commands on an endpoint that only has DynamoDB. The scripts
// name it with a flag. A command without the flag would call AWS, but with invalid
// credentials.
func TestTableScripts(t *testing.T) {
	t.Parallel()
	url := clitest.Engine.URL(t)
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
	p.Cmds["record"] = putRecord
	testscript.Run(t, p)
}

// putItem implements the script command "put TABLE PK SK [NAME=VALUE...]". It
// stores an item of texts in the format of older releases. The engine does not
// check signatures, so the request needs no SDK.
func putItem(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: put TABLE PK SK [NAME=VALUE...]")
	}
	type value struct{ S string }
	item := map[string]value{"PK": {args[1]}, "SK": {args[2]}}
	for _, pair := range args[3:] {
		name, text, _ := strings.Cut(pair, "=")
		item[name] = value{text}
	}
	sendItem(ts, args[0], item)
}

// putRecord implements the script command "record TABLE VERSION [mixed]". It stores
// the items that a newer release of Python's library wrote; with mixed, all but its
// version record.
func putRecord(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: record TABLE VERSION [mixed]")
	}
	file, err := os.ReadFile("../../../dynamo/testdata/python-" + args[1] + ".jsonl")
	ts.Check(err)
	for line := range strings.Lines(string(file)) {
		if len(args) == 3 && strings.Contains(line, `"#VERSION"`) {
			continue
		}
		sendItem(ts, args[0], json.RawMessage(line))
	}
}

// sendItem stores an item in DynamoDB JSON.
func sendItem(ts *testscript.TestScript, table string, item any) {
	body, err := json.Marshal(map[string]any{"TableName": table, "Item": item})
	ts.Check(err)
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, ts.Getenv("ENDPOINT"),
		bytes.NewReader(body))
	ts.Check(err)
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.PutItem")
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("Authorization",
		"AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=none")
	answer, err := http.DefaultClient.Do(r)
	ts.Check(err)
	ts.Check(answer.Body.Close())
	if answer.StatusCode != http.StatusOK {
		ts.Fatalf("%s", answer.Status)
	}
}
