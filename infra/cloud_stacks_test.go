package infra_test

import (
	"context"
	"encoding/xml"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// cloudStack is one of the cloud's, or was.
type cloudStack struct {
	name, id, status, reason  string
	template                  string
	parameters, tags, outputs map[string]string
	resources                 map[string]string // by their names in the template
	protected                 bool
	created, updated          time.Time
	events                    []event // oldest first
	steps                     []step  // still to come, one for each look
	sets                      map[string]*changeSet
	retained                  []string
}

// step is a state of a stack, and what happens on the way to it.
type step struct {
	status string
	events []event
	do     func()
}

type event struct {
	XMLName  xml.Name  `xml:"member"`
	ID       string    `xml:"EventId"`
	StackID  string    `xml:"StackId"`
	Resource string    `xml:"LogicalResourceId"`
	Physical string    `xml:"PhysicalResourceId"`
	Type     string    `xml:"ResourceType"`
	Status   string    `xml:"ResourceStatus"`
	Reason   string    `xml:"ResourceStatusReason,omitempty"`
	Time     time.Time `xml:"Timestamp"`
}

type changeSet struct {
	id, status, reason string
	looks              int // until it is done
	template           string
	parameters, tags   map[string]string
	changes            []change
}

type change struct {
	action, resource, kind, replacement string
	details                             string // in XML
}

const tableID, functionID, archiveID = "RateLimitsTable", "AggregatorFunction", "AuditArchiveBucket"

var kinds = map[string]string{
	tableID: "AWS::DynamoDB::Table", functionID: "AWS::Lambda::Function", archiveID: "AWS::S3::Bucket",
}

func (c *cloud) now() time.Time {
	c.clock = c.clock.Add(time.Second)
	return c.clock
}

// find is a stack by its name, unless it is deleted, or by its ID.
func (c *cloud) find(name string) *cloudStack {
	for _, s := range slices.Backward(c.stacks) {
		if s.id == name || s.name == name && s.status != "DELETE_COMPLETE" {
			return s
		}
	}
	return nil
}

// put makes a stack that is there before the test begins.
func (c *cloud) put(name, status string, tags map[string]string) *cloudStack {
	s := &cloudStack{
		name: name, id: fmt.Sprintf("arn:aws:cloudformation:%s:%s:stack/%s/%d", region, accountID, name, len(c.stacks)), status: status,
		parameters: map[string]string{}, tags: tags, resources: map[string]string{}, created: c.now(), sets: map[string]*changeSet{},
	}
	c.stacks = append(c.stacks, s)
	return s
}

// happened adds an event about a resource, or about the stack if there is none.
func (c *cloud) happened(s *cloudStack, resource, status, reason string) {
	e := event{
		ID: fmt.Sprintf("%s-%d", s.name, len(s.events)), StackID: s.id, Resource: resource, Physical: s.resources[resource],
		Type: kinds[resource], Status: status, Reason: reason, Time: c.now(),
	}
	if resource == "" {
		e.Resource, e.Physical, e.Type = s.name, s.id, "AWS::CloudFormation::Stack"
	}
	s.events = append(s.events, e)
}

// advance is a moment later.
func (c *cloud) advance(s *cloudStack) {
	if len(s.steps) == 0 {
		return
	}
	next := s.steps[0]
	s.steps = s.steps[1:]
	for _, e := range next.events {
		c.happened(s, e.Resource, e.Status, e.Reason)
	}
	if next.do != nil {
		next.do()
	}
	if s.status != next.status {
		s.status = next.status
		c.happened(s, "", next.status, "")
	}
}

func (c *cloud) stack(asked *cloudCall) *reply {
	name := asked.form.Get("StackName")
	s := c.find(name)
	switch asked.op {
	case "GetCallerIdentity":
		return xmlReply(200, "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>"+accountID+"</Account></GetCallerIdentityResult></GetCallerIdentityResponse>")
	case "CreateStack":
		return c.createStack(asked, s)
	case "DescribeChangeSet", "ExecuteChangeSet", "DeleteChangeSet":
		return c.changeSet(asked)
	case "DescribeStackResources":
		return c.owner(asked)
	case "DescribeStacks":
		if name == "" {
			return c.listStacks(asked)
		}
	case "DeleteStack":
		if s == nil {
			return result(asked.op, "")
		}
	}
	if s == nil {
		return failed(asked, 400, "ValidationError", "Stack with id "+name+" does not exist")
	}
	switch asked.op {
	case "DescribeStacks":
		c.advance(s)
		return result(asked.op, "<Stacks>"+s.xml()+"</Stacks>")
	case "DescribeStackEvents":
		return result(asked.op, s.eventsXML())
	case "DescribeStackResource":
		return s.resourceXML(asked)
	case "CreateChangeSet":
		return c.createChangeSet(asked, s)
	case "DeleteStack":
		return c.deleteStack(asked, s)
	}
	c.tb.Errorf("nobody answers %s", asked.op)
	return failed(asked, 400, "InvalidAction", asked.op)
}

func result(op, body string) *reply {
	return xmlReply(200, fmt.Sprintf("<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", op, body))
}

func (s *cloudStack) xml() string {
	text := fmt.Sprintf("<member><StackName>%s</StackName><StackId>%s</StackId><StackStatus>%s</StackStatus><StackStatusReason>%s</StackStatusReason><CreationTime>%s</CreationTime><EnableTerminationProtection>%t</EnableTerminationProtection>",
		s.name, s.id, s.status, escaped(s.reason), s.created.Format(time.RFC3339), s.protected)
	if !s.updated.IsZero() {
		text += "<LastUpdatedTime>" + s.updated.Format(time.RFC3339) + "</LastUpdatedTime>"
	}
	for _, list := range []struct {
		name, member, key, value string
		of                       map[string]string
	}{
		{"Parameters", "", "ParameterKey", "ParameterValue", s.parameters},
		{"Tags", "", "Key", "Value", s.tags},
		{"Outputs", "", "OutputKey", "OutputValue", s.outputs},
	} {
		text += "<" + list.name + ">"
		for _, key := range slices.Sorted(maps.Keys(list.of)) {
			text += fmt.Sprintf("<member><%[1]s>%[2]s</%[1]s><%[3]s>%[4]s</%[3]s></member>", list.key, escaped(key), list.value, escaped(list.of[key]))
		}
		text += "</" + list.name + ">"
	}
	return text + "</member>"
}

// listStacks has two stacks on a page.
func (c *cloud) listStacks(asked *cloudCall) *reply {
	var first int
	_, _ = fmt.Sscan(asked.form.Get("NextToken"), &first) // none is the beginning
	text := "<Stacks>"
	for _, s := range c.stacks[first:min(first+2, len(c.stacks))] {
		text += s.xml()
	}
	text += "</Stacks>"
	if first+2 < len(c.stacks) {
		text += fmt.Sprintf("<NextToken>%d</NextToken>", first+2)
	}
	return result(asked.op, text)
}

func (s *cloudStack) eventsXML() string {
	list := slices.Clone(s.events)
	slices.Reverse(list)
	text, err := xml.Marshal(list)
	if err != nil {
		panic(err)
	}
	return "<StackEvents>" + string(text) + "</StackEvents>"
}

func (s *cloudStack) resourceXML(asked *cloudCall) *reply {
	logical := asked.form.Get("LogicalResourceId")
	physical, ok := s.resources[logical]
	if !ok {
		return failed(asked, 400, "ValidationError", "Resource "+logical+" does not exist for stack "+s.name)
	}
	return result(asked.op, fmt.Sprintf("<StackResourceDetail><LogicalResourceId>%s</LogicalResourceId><PhysicalResourceId>%s</PhysicalResourceId><ResourceType>%s</ResourceType><ResourceStatus>CREATE_COMPLETE</ResourceStatus></StackResourceDetail>",
		logical, physical, kinds[logical]))
}

// owner answers which stack a resource in the account belongs to.
func (c *cloud) owner(asked *cloudCall) *reply {
	physical := asked.form.Get("PhysicalResourceId")
	for _, s := range c.stacks {
		for logical, id := range s.resources {
			if id == physical {
				return result(asked.op, fmt.Sprintf("<StackResources><member><StackName>%s</StackName><LogicalResourceId>%s</LogicalResourceId><PhysicalResourceId>%s</PhysicalResourceId><ResourceType>%s</ResourceType></member></StackResources>",
					s.name, logical, physical, kinds[logical]))
			}
		}
	}
	return failed(asked, 400, "ValidationError", "Stack for "+physical+" does not exist")
}

// listed is a list of pairs in a form, such as Tags.member.1.Key.
func (c *cloud) listed(asked *cloudCall, list, key, value string) map[string]string {
	found := map[string]string{}
	for i := 1; ; i++ {
		prefix := fmt.Sprintf("%s.member.%d.", list, i)
		if !asked.form.Has(prefix + key) {
			return found
		}
		name := asked.form.Get(prefix + key)
		if _, twice := found[name]; twice {
			c.tb.Errorf("%s: %s is there twice in %s", asked.op, name, list)
		}
		found[name] = asked.form.Get(prefix + value)
	}
}

var aDefault = regexp.MustCompile(`(?m)^  (\w+):\n    Type: \w+\n    Default: (.*)$`)

// defaults are those of a template's parameters, all of which a stack has.
func defaults(template string) map[string]string {
	all := map[string]string{}
	for _, found := range aDefault.FindAllStringSubmatch(template, -1) {
		all[found[1]] = strings.Trim(found[2], "'")
	}
	return all
}

func (c *cloud) createStack(asked *cloudCall, existing *cloudStack) *reply {
	name := asked.form.Get("StackName")
	if existing != nil {
		return failed(asked, 400, "AlreadyExistsException", "Stack ["+name+"] already exists")
	}
	s := c.put(name, "CREATE_IN_PROGRESS", c.listed(asked, "Tags", "Key", "Value"))
	s.template = asked.form.Get("TemplateBody")
	s.parameters = with(defaults(s.template), c.listed(asked, "Parameters", "ParameterKey", "ParameterValue"))
	c.happened(s, "", "CREATE_IN_PROGRESS", "User Initiated")
	made := func(resource, physical string) step {
		if why := c.failing[resource]; why != "" {
			s.steps = nil
			return step{status: "ROLLBACK_IN_PROGRESS", events: []event{
				{Resource: resource, Status: "CREATE_FAILED", Reason: why}, {Resource: "AppRole", Status: "CREATE_FAILED", Reason: "Resource creation cancelled"},
			}}
		}
		return step{status: "CREATE_IN_PROGRESS", events: []event{{Resource: resource, Status: "CREATE_COMPLETE"}}, do: func() { s.resources[resource] = physical }}
	}
	s.steps = []step{{status: "CREATE_IN_PROGRESS", events: []event{{Resource: tableID, Status: "CREATE_IN_PROGRESS"}}}}
	for _, resource := range []string{tableID, functionID, archiveID} {
		next := made(resource, map[string]string{tableID: name, functionID: name + "-aggregator", archiveID: strings.ToLower(name) + "-archive"}[resource])
		s.steps = append(s.steps, next)
		if next.status != "CREATE_IN_PROGRESS" {
			s.steps = append(s.steps, step{status: "ROLLBACK_COMPLETE", do: func() { clear(s.resources) }})
			return result(asked.op, "<StackId>"+s.id+"</StackId>")
		}
	}
	s.steps = append(s.steps, step{status: "CREATE_COMPLETE", do: func() {
		s.outputs = map[string]string{"TableName": name, "AggregatorDLQUrl": c.URL + "/" + accountID + "/" + name + "-aggregator-dlq"}
		c.makeTable(name)
		c.buckets[s.resources[archiveID]] = &bucket{objects: map[string][]byte{}}
	}})
	return result(asked.op, "<StackId>"+s.id+"</StackId>")
}

// makeTable makes an empty table as the template does: with nothing in it.
func (c *cloud) makeTable(name string) {
	ctx := context.Background()
	opts := &dynamo.Options{AWS: config(c.engine)}
	if err := dynamo.CreateTable(ctx, name, opts); err != nil {
		c.tb.Errorf("making table %s: %v", name, err)
	}
	client := dynamodb.NewFromConfig(*opts.AWS)
	found, err := client.Scan(ctx, &dynamodb.ScanInput{TableName: &name})
	if err != nil {
		c.tb.Error(err)
		return
	}
	for _, item := range found.Items {
		key := maps.Clone(item)
		maps.DeleteFunc(key, func(attr string, _ types.AttributeValue) bool { return attr != "PK" && attr != "SK" })
		if _, err := client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &name, Key: key}); err != nil {
			c.tb.Error(err)
		}
	}
	c.tb.Cleanup(func() { c.dropTable(name) })
}

func (c *cloud) dropTable(name string) {
	client := dynamodb.NewFromConfig(*config(c.engine))
	_, _ = client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name}) // it may be gone already
}

// setSchema changes the version record of a table; "" removes it.
func (c *cloud) setSchema(table, schema string) {
	client := dynamodb.NewFromConfig(*config(c.engine))
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	key := map[string]types.AttributeValue{"PK": text("_/SYSTEM#"), "SK": text("#VERSION")}
	var err error
	if schema == "" {
		_, err = client.DeleteItem(context.Background(), &dynamodb.DeleteItemInput{TableName: &table, Key: key})
	} else {
		_, err = client.UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
			TableName: &table, Key: key, UpdateExpression: aws.String("SET schema_version = :v"), ConditionExpression: aws.String("attribute_exists(PK)"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":v": text(schema)},
		})
	}
	if err != nil {
		c.tb.Error(err)
	}
}
