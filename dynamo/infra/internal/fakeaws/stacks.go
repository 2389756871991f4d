package fakeaws

import (
	"encoding/xml"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Stack is a stack of a Cloud, deleted ones included.
type Stack struct {
	Name, ID, Status, Reason  string
	Template                  string
	Parameters, Tags, Outputs map[string]string
	Resources                 map[string]string // logical to physical ID
	Protected                 bool              // against termination
	Created, Updated          time.Time
	Steps                     []Step // the states to come; each DescribeStacks takes one
	ChangeSets                map[string]*ChangeSet
	Retained                  []string // logical IDs that DeleteStack left

	events []Event // oldest first
}

// Step is the next state of a Stack.
type Step struct {
	Status string
	Events []Event
	Do     func() // nil for nothing
}

// Event is an event of a Stack, in XML.
type Event struct {
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

// Logical IDs of the resources of a Stack.
const (
	TableID    = "RateLimitsTable"
	FunctionID = "AggregatorFunction"
	ArchiveID  = "AuditArchiveBucket"
)

var resourceTypes = map[string]string{
	WorkerID: "AWS::Lambda::Function", ClusterID: "AWS::ECS::Cluster", RepositoryID: "AWS::ECR::Repository",
	EndpointID: "AWS::EC2::VPCEndpoint",
	TableID:    "AWS::DynamoDB::Table", FunctionID: "AWS::Lambda::Function", ArchiveID: "AWS::S3::Bucket",
}

// ResourceType returns the type of a resource of a Stack.
func ResourceType(logical string) string { return resourceTypes[logical] }

// Now returns the time of the cloud, which advances by a second with each call.
func (c *Cloud) Now() time.Time {
	c.clock = c.clock.Add(time.Second)
	return c.clock
}

// Find returns the stack with that ID, or the existing one with that name, or nil.
func (c *Cloud) Find(name string) *Stack {
	// The newest stack comes first, since a deleted one may have had the same
	// name.
	for _, s := range slices.Backward(c.Stacks) {
		if s.ID == name || s.Name == name && s.Status != "DELETE_COMPLETE" {
			return s
		}
	}
	return nil
}

// AddStack adds a stack without any call.
func (c *Cloud) AddStack(name, status string, tags map[string]string) *Stack {
	s := &Stack{
		Name: name, ID: fmt.Sprintf("arn:aws:cloudformation:%s:%s:stack/%s/%d", Region, AccountID, name,
			len(c.Stacks)), Status: status,
		Parameters: map[string]string{}, Tags: tags, Resources: map[string]string{}, Created: c.Now(),
		ChangeSets: map[string]*ChangeSet{},
	}
	c.Stacks = append(c.Stacks, s)
	return s
}

// AddEvent adds an event about a resource, or about the stack if resource is "".
func (c *Cloud) AddEvent(s *Stack, resource, status, reason string) {
	e := Event{
		ID: fmt.Sprintf("%s-%d", s.Name, len(s.events)), StackID: s.ID, Resource: resource,
		Physical: s.Resources[resource],
		Type:     resourceTypes[resource], Status: status, Reason: reason, Time: c.Now(),
	}
	if resource == "" {
		e.Resource, e.Physical, e.Type = s.Name, s.ID, "AWS::CloudFormation::Stack"
	}
	s.events = append(s.events, e)
}

// Advance takes the next step of a stack.
func (c *Cloud) Advance(s *Stack) {
	if len(s.Steps) == 0 {
		return
	}

	next := s.Steps[0]
	s.Steps = s.Steps[1:]

	for _, e := range next.Events {
		c.AddEvent(s, e.Resource, e.Status, e.Reason)
	}

	if next.Do != nil {
		next.Do()
	}

	// A step that repeats the status stands for a look at the stack in the
	// meantime, which is no event.
	if s.Status != next.Status {
		s.Status = next.Status
		c.AddEvent(s, "", next.Status, "")
	}
}

// serveStack answers CloudFormation and STS.
func (c *Cloud) serveStack(r *Request) *Reply {
	name := r.Form.Get("StackName")

	s := c.Find(name)

	switch r.Op {
	case "GetCallerIdentity":
		return xmlReply(200,
			"<GetCallerIdentityResponse><GetCallerIdentityResult><Account>"+AccountID+
				"</Account></GetCallerIdentityResult></GetCallerIdentityResponse>")
	case "CreateStack":
		return c.CreateStack(r)
	case "DescribeChangeSet", "ExecuteChangeSet", "DeleteChangeSet":
		return c.serveChangeSet(r)
	case "DescribeStackResources":
		return c.describeOwner(r)
	case "DescribeStacks":
		if name == "" {
			return c.listStacks(r)
		}
	case "DeleteStack":
		// AWS reports no error for a stack that does not exist.
		if s == nil {
			return xmlResult(r.Op, "")
		}
	}

	if s == nil {
		return ErrorReply(r, 400, "ValidationError", "Stack with id "+name+" does not exist")
	}

	switch r.Op {
	case "DescribeStacks":
		c.Advance(s)
		return xmlResult(r.Op, "<Stacks>"+s.xml()+"</Stacks>")
	case "DescribeStackEvents":
		return xmlResult(r.Op, s.eventsXML())
	case "DescribeStackResource":
		return s.resourceXML(r)
	case "CreateChangeSet":
		return c.createChangeSet(r, s)
	case "DeleteStack":
		return c.deleteStack(r, s)
	}

	c.tb.Errorf("no handler for %s", r.Op)
	return ErrorReply(r, 400, "InvalidAction", r.Op)
}

func xmlResult(op, body string) *Reply {
	return xmlReply(200, fmt.Sprintf("<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", op, body))
}

func (s *Stack) xml() string {
	text := fmt.Sprintf("<member><StackName>%s</StackName><StackId>%s</StackId><StackStatus>%s</StackStatus>"+
		"<StackStatusReason>%s</StackStatusReason><CreationTime>%s</CreationTime>"+
		"<EnableTerminationProtection>%t</EnableTerminationProtection>",
		s.Name, s.ID, s.Status, escapeXML(s.Reason), s.Created.Format(time.RFC3339), s.Protected)

	if !s.Updated.IsZero() {
		text += "<LastUpdatedTime>" + s.Updated.Format(time.RFC3339) + "</LastUpdatedTime>"
	}

	for _, list := range []struct {
		name, member, key, value string
		of                       map[string]string
	}{
		{"Parameters", "", "ParameterKey", "ParameterValue", s.Parameters},
		{"Tags", "", "Key", "Value", s.Tags},
		{"Outputs", "", "OutputKey", "OutputValue", s.Outputs},
	} {
		text += "<" + list.name + ">"
		for _, key := range slices.Sorted(maps.Keys(list.of)) {
			text += fmt.Sprintf("<member><%[1]s>%[2]s</%[1]s><%[3]s>%[4]s</%[3]s></member>", list.key,
				escapeXML(key), list.value, escapeXML(list.of[key]))
		}
		text += "</" + list.name + ">"
	}

	return text + "</member>"
}

// listStacks returns two stacks per page.
func (c *Cloud) listStacks(r *Request) *Reply {
	var first int
	// Without a token, first stays 0, which is the first page.
	_, _ = fmt.Sscan(r.Form.Get("NextToken"), &first)

	text := "<Stacks>"
	for _, s := range c.Stacks[first:min(first+2, len(c.Stacks))] {
		text += s.xml()
	}
	text += "</Stacks>"

	if first+2 < len(c.Stacks) {
		text += fmt.Sprintf("<NextToken>%d</NextToken>", first+2)
	}

	return xmlResult(r.Op, text)
}

func (s *Stack) eventsXML() string {
	// AWS returns the newest event first.
	list := slices.Clone(s.events)
	slices.Reverse(list)
	text, err := xml.Marshal(list)
	if err != nil {
		panic(err)
	}
	return "<StackEvents>" + string(text) + "</StackEvents>"
}

func (s *Stack) resourceXML(r *Request) *Reply {
	logical := r.Form.Get("LogicalResourceId")
	physical, ok := s.Resources[logical]
	if !ok {
		return ErrorReply(r, 400, "ValidationError", "Resource "+logical+" does not exist for stack "+s.Name)
	}

	return xmlResult(r.Op, fmt.Sprintf("<StackResourceDetail><LogicalResourceId>%s</LogicalResourceId>"+
		"<PhysicalResourceId>%s</PhysicalResourceId><ResourceType>%s</ResourceType>"+
		"<ResourceStatus>CREATE_COMPLETE</ResourceStatus></StackResourceDetail>",
		logical, physical, resourceTypes[logical]))
}

// describeOwner finds the stack of a physical resource.
func (c *Cloud) describeOwner(r *Request) *Reply {
	physical := r.Form.Get("PhysicalResourceId")

	for _, s := range c.Stacks {
		for logical, id := range s.Resources {
			if id == physical {
				return xmlResult(r.Op, fmt.Sprintf("<StackResources><member><StackName>%s</StackName>"+
					"<LogicalResourceId>%s</LogicalResourceId><PhysicalResourceId>%s</PhysicalResourceId>"+
					"<ResourceType>%s</ResourceType></member></StackResources>",
					s.Name, logical, physical, resourceTypes[logical]))
			}
		}
	}

	return ErrorReply(r, 400, "ValidationError", "Stack for "+physical+" does not exist")
}

// formPairs returns a list of pairs in a form, such as Tags.member.1.Key.
func (c *Cloud) formPairs(r *Request, list, key, value string) map[string]string {
	found := map[string]string{}

	for i := 1; ; i++ {
		prefix := fmt.Sprintf("%s.member.%d.", list, i)
		if !r.Form.Has(prefix + key) {
			return found
		}

		name := r.Form.Get(prefix + key)
		// A request must name each tag and each parameter once.
		if _, twice := found[name]; twice {
			c.tb.Errorf("%s: %s occurs twice in %s", r.Op, name, list)
		}

		found[name] = r.Form.Get(prefix + value)
	}
}

var defaultPattern = regexp.MustCompile(`(?m)^  (\w+):\n    Type: \w+\n    Default: (.*)$`)

// Defaults returns the defaults of the parameters of a template.
func Defaults(template string) map[string]string {
	all := map[string]string{}
	for _, found := range defaultPattern.FindAllStringSubmatch(template, -1) {
		all[found[1]] = strings.Trim(found[2], "'")
	}
	return all
}

// CreateStack answers a CreateStack request.
func (c *Cloud) CreateStack(r *Request) *Reply {
	name := r.Form.Get("StackName")
	if c.Find(name) != nil {
		return ErrorReply(r, 400, "AlreadyExistsException", "Stack ["+name+"] already exists")
	}

	s := c.AddStack(name, "CREATE_IN_PROGRESS", c.formPairs(r, "Tags", "Key", "Value"))
	s.Template = r.Form.Get("TemplateBody")
	s.Parameters = merge(Defaults(s.Template), c.formPairs(r, "Parameters", "ParameterKey", "ParameterValue"))
	c.AddEvent(s, "", "CREATE_IN_PROGRESS", "User Initiated")

	create := func(resource, physical string) Step {
		if why := c.Failing[resource]; why != "" {
			s.Steps = nil
			return Step{Status: "ROLLBACK_IN_PROGRESS", Events: []Event{
				{Resource: resource, Status: "CREATE_FAILED", Reason: why},
				{Resource: "AppRole", Status: "CREATE_FAILED", Reason: "Resource creation cancelled"},
			}}
		}

		return Step{
			Status: "CREATE_IN_PROGRESS", Events: []Event{{Resource: resource, Status: "CREATE_COMPLETE"}},
			Do: func() {
				s.Resources[resource] = physical
			},
		}
	}

	if s.isLoad() {
		return c.createLoad(r, s)
	}

	s.Steps = []Step{{Status: "CREATE_IN_PROGRESS", Events: []Event{{Resource: TableID, Status: "CREATE_IN_PROGRESS"}}}}

	for _, resource := range []string{TableID, FunctionID, ArchiveID} {
		next := create(resource,
			map[string]string{
				TableID: name, FunctionID: name + "-aggregator", ArchiveID: strings.ToLower(name) + "-archive",
			}[resource])
		s.Steps = append(s.Steps, next)
		// A failed creation ends with a rollback, and the later resources are
		// never begun.
		if next.Status != "CREATE_IN_PROGRESS" {
			s.Steps = append(s.Steps, Step{Status: "ROLLBACK_COMPLETE", Do: func() { clear(s.Resources) }})
			return xmlResult(r.Op, "<StackId>"+s.ID+"</StackId>")
		}
	}

	s.Steps = append(s.Steps, Step{Status: "CREATE_COMPLETE", Do: func() {
		s.Outputs = map[string]string{
			"TableName": name, "AggregatorDLQUrl": c.URL + "/" + AccountID + "/" + name + "-aggregator-dlq",
		}
		c.createTable(name, s.Parameters["EnableLeanIndex"] == "true")
		c.Buckets[s.Resources[ArchiveID]] = &Bucket{Objects: map[string][]byte{}}
	}})

	return xmlResult(r.Op, "<StackId>"+s.ID+"</StackId>")
}

// merge returns both maps in one; values of more win.
func merge(all, more map[string]string) map[string]string {
	all = maps.Clone(all)
	maps.Copy(all, more)
	return all
}
