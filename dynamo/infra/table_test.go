package infra_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

func TestDeleteTable(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	must(t, dynamo.CreateTable(t.Context(), name, &opts.Dynamo))
	no := errors.New("no")
	var shown infra.TableRemoval
	_, err := infra.DeleteTable(t.Context(), name, &infra.DeleteTableOptions{
		Options: opts,
		Confirm: func(r infra.TableRemoval) error {
			shown = r
			return no
		},
	})
	if err != no { //nolint:errorlint // not wrapped
		t.Errorf("%T %v", err, err)
	}
	if !shown.Existed || shown.Name != name || shown.Region != fakeaws.Region || shown.Items == 0 {
		t.Errorf("%+v", shown)
	}
	r, err := infra.DeleteTable(t.Context(), name, &infra.DeleteTableOptions{Options: opts})
	must(t, err)
	if !r.Existed {
		t.Errorf("%+v", r)
	}
	if _, err := connect(t.Context(), c, name); !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
	r, err = infra.DeleteTable(t.Context(), name, &infra.DeleteTableOptions{
		Options: opts,
		Confirm: func(infra.TableRemoval) error {
			return no
		},
	})
	must(t, err)
	if r.Existed {
		t.Errorf("%+v", r)
	}
}

// DeleteTable deletes an empty table, which may be the rest of a failed creation.
func TestDeleteTableThatIsEmpty(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	c.CreateTable(name)
	r, err := infra.DeleteTable(t.Context(), name, &infra.DeleteTableOptions{Options: opts})
	must(t, err)
	if !r.Existed {
		t.Errorf("%+v", r)
	}
}

func TestDeleteTableRefuses(t *testing.T) {
	t.Parallel()
	at := func(c *cloud) string { return " " + fakeaws.Region + " " + c.URL + ")" }
	for what, test := range map[string]struct {
		prepare func(c *cloud, name string)
		says    func(c *cloud, name string) string
	}{
		"the table of a stack": {func(c *cloud, name string) {
			deploy(t, name, c.options())
		}, func(c *cloud, name string) string {
			return "it belongs to stack " + name + " (CREATE_COMPLETE); infra.Delete(" + name + at(c)
		}},
		"the table of a stack by another name": {func(c *cloud, name string) {
			c.CreateTable(name)
			c.AddStack("other", "CREATE_COMPLETE", nil).Resources[fakeaws.TableID] = name
		}, func(*cloud, string) string { return "it belongs to stack other; delete it there" }},
		"the table of a stack that is being made": {func(c *cloud, name string) {
			c.CreateTable(name)
			c.AddStack(name, "CREATE_IN_PROGRESS", managedTags(name))
		}, func(_ *cloud, name string) string { return "it belongs to stack " + name + " (CREATE_IN_PROGRESS)" }},
		"a table with items of others": {func(c *cloud, name string) {
			c.CreateTable(name)
			_, err := dynamodb.NewFromConfig(*fakeaws.Config(c.Engine)).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: map[string]types.AttributeValue{
				"PK": &types.AttributeValueMemberS{Value: "USER#1"},
				"SK": &types.AttributeValueMemberS{Value: "PROFILE"},
			}})
			must(t, err)
		}, func(c *cloud, name string) string {
			return "it may belong to another program; if its data predate version records, dynamo.Migrate(" +
				name + at(c)
		}},
		"a protected table": {func(c *cloud, name string) {
			c.CreateTable(name)
			_, err := dynamodb.NewFromConfig(*fakeaws.Config(c.Engine)).UpdateTable(t.Context(),
				&dynamodb.UpdateTableInput{TableName: &name, DeletionProtectionEnabled: aws.Bool(true)})
			must(t, err)
		}, func(c *cloud, name string) string {
			return "it is protected; disable the protection with UpdateTable of DynamoDB(" + name + at(c)
		}},
	} {
		c, name := newCloud(t), stackName()
		test.prepare(c, name)
		c.TakeCalls()
		_, err := infra.DeleteTable(t.Context(), name, &infra.DeleteTableOptions{
			Options: c.options(),
			Confirm: func(infra.TableRemoval) error {
				t.Errorf("%s: Confirm was called", what)
				return nil
			},
		})
		checkError[*infra.RefusedError](t, err, test.says(c, name))
		if got := c.TakeCalls("DeleteTable"); len(got) > 0 {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// DeleteTable needs permission to find the owner of a table.
func TestDeleteTableHasToKnowTheOwner(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"DescribeStacks", "DescribeStackResources"} {
		c, name := newCloud(t), stackName()
		c.CreateTable(name)
		c.Deny(op)
		_, err := infra.DeleteTable(t.Context(), name, &infra.DeleteTableOptions{Options: c.options()})
		checkError[*limiter.UnavailableError](t, err, "cloudformation:"+op)
		if got := c.TakeCalls("DeleteTable"); len(got) > 0 {
			t.Error(got)
		}
	}
}

func TestDeleteTableValidatesBeforeAnyCall(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	_, err := infra.DeleteTable(t.Context(), "a_b", &infra.DeleteTableOptions{Options: c.options()})
	checkError[*limiter.InvalidError](t, err, "underscores")
	if got := c.Log(); len(got) > 0 {
		t.Error(got)
	}
}
