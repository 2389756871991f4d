package wire

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/schemas"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// ignoreSerde ignores the unexported marks of the SDK's types.
var ignoreSerde = cmpopts.IgnoreUnexported(types.AttributeValueMemberN{}, types.AttributeValueMemberS{},
	types.AttributeValueMemberBOOL{}, types.AttributeValueMemberNULL{})

// sdkDecode decodes a response as the SDK does.
func sdkDecode(body string) (map[string]types.AttributeValue, error) {
	options := dynamodb.New(dynamodb.Options{Region: "us-east-1"}).Options()
	out := &dynamodb.UpdateItemOutput{}
	err := options.Protocol.DeserializeResponse(nil, //nolint:staticcheck // it uses no context
		smithy.NewOperationSchema(schemas.UpdateItem, schemas.UpdateItemInput, schemas.UpdateItemOutput),
		dynamodb.TypeRegistry,
		&smithyhttp.Response{Response: &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
		}}, out)
	return out.Attributes, err
}

// plainReplies are decoded without the SDK.
var plainReplies = []string{
	`{"Attributes":{}}`,
	`{"Attributes":{"PK":{"S":"ns/ENTITY#a"},"rf":{"N":"1763270000000"},"cascade":{"BOOL":true},"x":{"BOOL":false}}}`,
	" {\n\t\"Attributes\" : { \"a\" : { \"N\" : \"-1\" } , \"b\" : { \"S\" : \"\" } } }\r\n",
	`{"Attributes":{"a\u00e4\"\\\/\b\ud83d\ude00":{"S":"x\n\ty ä 😀"}}}`,
	`{"Attributes":{"a":{"N":"1"},"a":{"N":"2"}}}`,
	`{"Attributes":{"parent_id":{"NULL":true}}}`,
}

// otherReplies are left to the SDK.
var otherReplies = []string{
	``, ` `, `{}`, `null`, `[]`, `"Attributes"`, `{"Attributes":null}`, `{"Attributes":{"a":null}}`,
	`{"Attributes":{"a":{}}}`,
	`{"Attributes":{"a":{"N":1}}}`, `{"Attributes":{"a":{"N":"1"}}`, `{"Attributes":{"a":{"N":"1"},}}`,
	`{"Attributes":{"a":{"N":"1"}}}}`,
	`{"Attributes":{"a":{"N":"1"}}} x`, `{"Attributes":{"a":{"L":[]}}}`, `{"Attributes":{"a":{"M":{}}}}`,
	`{"Attributes":{"a":{"NS":["1"]}}}`,
	`{"Attributes":{"a":{"N":"1","S":"x"}}}`, `{"Attributes":{"a":{"BOOL":"true"}}}`,
	`{"Attributes":{"a":{"BOOL":truex}}}`,
	`{"Attributes":{"a":{"N":"1"}},"ConsumedCapacity":{"CapacityUnits":1}}`, `{"attributes":{"a":{"N":"1"}}}`,
	"{\"Attributes\":{\"a\":{\"S\":\"\n\"}}}",
	"{\"Attributes\":{\"a\":{\"S\":\"\xff\"}}}", `{"Attributes":{"a":{"S":"\x"}}}`, `{"Attributes":{"a":{"S":"\`,
	`{"Attributes":{"a":{"S":"\u12"}}}`,
	`<html></html>`, `{"Attributes"`, `{"Attributes":{"a`, `{"Attributes":{"a":{"NULL":false}}}`,
}

func TestDecode(t *testing.T) {
	for _, body := range plainReplies {
		got, ok := decode(body)
		want, err := sdkDecode(body)
		if diff := cmp.Diff(want, got, ignoreSerde); !ok || err != nil || diff != "" {
			t.Errorf("%s: %v, SDK %v: %s", body, ok, err, diff)
		}
	}
	for _, body := range otherReplies {
		if got, ok := decode(body); ok {
			t.Errorf("%s: %v", body, got)
		}
	}
}

// An item with more numbers than expected has all of them.
func TestDecodeManyNumbers(t *testing.T) {
	many := map[string]map[string]string{}
	for i := range 100 {
		many["a"+strings.Repeat("a", i)] = map[string]string{"N": strings.Repeat("1", i+1)}
	}
	body, err := json.Marshal(map[string]any{"Attributes": many})
	if err != nil {
		t.Fatal(err)
	}
	got, ok := decode(string(body))
	want, err := sdkDecode(string(body))
	if diff := cmp.Diff(want, got, ignoreSerde); !ok || err != nil || diff != "" {
		t.Errorf("%v, SDK %v: %s", ok, err, diff)
	}
}

// FuzzDecode checks that the SDK decodes the same from whatever is decoded
// without it.
func FuzzDecode(f *testing.F) {
	for _, body := range append(plainReplies, otherReplies...) {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		got, ok := decode(body)
		if !ok {
			return
		}
		want, err := sdkDecode(body)
		if diff := cmp.Diff(want, got, ignoreSerde); err != nil || diff != "" {
			t.Errorf("SDK %v: %s", err, diff)
		}
	})
}

// FuzzEncode checks that the texts of an update arrive as the SDK sends them.
func FuzzEncode(f *testing.F) {
	f.Add("a", "ä😀", "\"\\/\x00\x1f\x7f\u2028")
	f.Add("", "\xff", "<&>")
	f.Fuzz(func(t *testing.T, name, key, value string) {
		in := &dynamodb.UpdateItemInput{
			TableName: aws.String(name), Key: map[string]types.AttributeValue{key: text(value)},
			ExpressionAttributeNames:  map[string]string{"#0": key},
			ExpressionAttributeValues: map[string]types.AttributeValue{}, UpdateExpression: &value,
		}
		body, ok := encode(in)
		if !ok {
			return
		}
		var got, want any
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		options := dynamodb.New(dynamodb.Options{Region: "us-east-1"}).Options()
		req := smithyhttp.NewStackRequest().(*smithyhttp.Request)
		if err := options.Protocol.SerializeRequest(
			t.Context(),
			smithy.NewOperationSchema(schemas.UpdateItem, schemas.UpdateItemInput, schemas.UpdateItemOutput),
			in, req,
		); err != nil {
			t.Fatal(err)
		}
		if err := json.NewDecoder(req.GetStream()).Decode(&want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the SDK (-) and the wire (+):\n%s", diff)
		}
	})
}
