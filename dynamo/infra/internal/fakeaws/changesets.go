package fakeaws

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ChangeSet is a change set of a Stack.
type ChangeSet struct {
	id, status, reason string
	looks              int // DescribeChangeSet calls until it is complete
	template           string
	parameters, tags   map[string]string
	changes            []Change
}

// Change is a change of a resource in a ChangeSet.
type Change struct {
	Action, Resource, Type, Replacement string
	Details                             string // in XML
}

// createChangeSet answers a CreateChangeSet request.
func (c *Cloud) createChangeSet(r *Request, s *Stack) *Reply {
	if strings.HasSuffix(s.Status, "_IN_PROGRESS") {
		return ErrorReply(r, 400, "ValidationError", "Stack:"+s.ID+" is in "+s.Status+" state and can not be updated.")
	}

	name := r.Form.Get("ChangeSetName")
	set := &ChangeSet{
		id: "arn:aws:cloudformation:" + Region + ":" + AccountID + ":changeSet/" + name, looks: 1,
		template: r.Form.Get("TemplateBody"), tags: c.formPairs(r, "Tags", "Key", "Value"),
		changes: c.Changes,
	}

	if r.Form.Get("UsePreviousTemplate") == "true" {
		set.template = s.Template
	}

	// Parameters without a value fall back to the defaults of the template, as
	// in AWS, and not to what is deployed.
	set.parameters = merge(Defaults(set.template), c.formPairs(r, "Parameters", "ParameterKey", "ParameterValue"))

	for key, kept := range c.formPairs(r, "Parameters", "ParameterKey", "UsePreviousValue") {
		if kept != "true" {
			continue
		}

		before, ok := s.Parameters[key]
		if !ok {
			return ErrorReply(r, 400, "ValidationError",
				"Invalid input for parameter key "+key+". Cannot specify usePreviousValue as true for a "+
					"parameter key not in the previous template")
		}
		set.parameters[key] = before
	}

	if set.changes == nil {
		set.changes = []Change{{"Modify", s.function(), resourceTypes[s.function()], "False", ""}}
	}

	set.status = "CREATE_COMPLETE"
	// A change set without changes fails, and is not merely empty.
	if set.template == s.Template && maps.Equal(set.parameters, s.Parameters) && maps.Equal(set.tags, s.Tags) {
		set.status, set.reason, set.changes = "FAILED", "The submitted information didn't contain changes. "+
			"Submit different information to create a change set.", nil
	}

	s.ChangeSets[set.id] = set
	return xmlResult(r.Op, "<Id>"+set.id+"</Id><StackId>"+s.ID+"</StackId>")
}

// serveChangeSet answers requests about one change set.
func (c *Cloud) serveChangeSet(r *Request) *Reply {
	id := r.Form.Get("ChangeSetName")

	i := slices.IndexFunc(c.Stacks, func(s *Stack) bool { return s.ChangeSets[id] != nil })
	if i < 0 {
		return ErrorReply(r, 404, "ChangeSetNotFound", "ChangeSet ["+id+"] does not exist")
	}

	s := c.Stacks[i]
	set := s.ChangeSets[id]

	switch r.Op {
	case "DescribeChangeSet":
		return set.describe(r)
	case "DeleteChangeSet":
		delete(s.ChangeSets, id)
		return xmlResult(r.Op, "")
	}

	// Another caller may have started an operation since the change set was
	// complete.
	if set.status != "CREATE_COMPLETE" || strings.HasSuffix(s.Status, "_IN_PROGRESS") {
		return ErrorReply(r, 400, "InvalidChangeSetStatus",
			"ChangeSet ["+id+"] cannot be executed in its current status")
	}

	c.execute(s, set)
	return xmlResult(r.Op, "")
}

// describe returns one change per page, once the change set is complete.
func (set *ChangeSet) describe(r *Request) *Reply {
	// The first look comes too early, as in AWS, so that callers have to wait.
	if set.looks > 0 {
		set.looks--
		return xmlResult(r.Op, "<ChangeSetId>"+set.id+"</ChangeSetId><Status>CREATE_IN_PROGRESS</Status>")
	}

	var first int
	// Without a token, first stays 0, which is the first page.
	_, _ = fmt.Sscan(r.Form.Get("NextToken"), &first)

	text := fmt.Sprintf("<ChangeSetId>%s</ChangeSetId><Status>%s</Status><StatusReason>%s</StatusReason><Changes>",
		set.id, set.status, escapeXML(set.reason))

	if first < len(set.changes) {
		ch := set.changes[first]
		text += fmt.Sprintf("<member><Type>Resource</Type><ResourceChange><Action>%s</Action>"+
			"<LogicalResourceId>%s</LogicalResourceId><PhysicalResourceId>p</PhysicalResourceId>"+
			"<ResourceType>%s</ResourceType><Replacement>%s</Replacement>"+
			"<Scope><member>Properties</member></Scope>%s</ResourceChange></member>",
			ch.Action, ch.Resource, ch.Type, ch.Replacement, ch.Details)
	}

	text += "</Changes>"
	if first+1 < len(set.changes) {
		text += fmt.Sprintf("<NextToken>%d</NextToken>", first+1)
	}

	return xmlResult(r.Op, text)
}

// execute starts an update. The next DescribeStacks still reports the old state,
// as that of AWS may.
func (c *Cloud) execute(s *Stack, set *ChangeSet) {
	// AWS deletes all change sets of a stack when one of them is executed.
	clear(s.ChangeSets)
	set.status = "EXECUTED"

	before := s.Status
	s.Steps = []Step{{Status: before}, {Status: "UPDATE_IN_PROGRESS"}}

	if why := c.Failing[s.function()]; why != "" {
		s.Steps = append(s.Steps,
			Step{
				Status: "UPDATE_ROLLBACK_IN_PROGRESS",
				Events: []Event{{Resource: s.function(), Status: "UPDATE_FAILED", Reason: why}},
			},
			Step{Status: "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS"}, Step{Status: "UPDATE_ROLLBACK_COMPLETE"})
		return
	}

	s.Steps = append(s.Steps,
		Step{
			Status: "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS",
			Events: []Event{{Resource: s.function(), Status: "UPDATE_COMPLETE"}},
		},
		Step{Status: "UPDATE_COMPLETE", Do: func() {
			s.Template, s.Parameters, s.Tags, s.Updated = set.template, set.parameters, set.tags, c.Now()
		}})
}

// deleteStack answers a DeleteStack request.
func (c *Cloud) deleteStack(r *Request, s *Stack) *Reply {
	if s.isLoad() {
		return c.deleteLoad(r, s)
	}

	// AWS accepts resources to retain only after a deletion that failed.
	for i := 1; r.Form.Has(fmt.Sprintf("RetainResources.member.%d", i)); i++ {
		if s.Status != "DELETE_FAILED" {
			return ErrorReply(r, 400, "ValidationError", "retainResources is only for a stack whose deletion failed")
		}
		s.Retained = append(s.Retained, r.Form.Get(fmt.Sprintf("RetainResources.member.%d", i)))
	}

	archive := s.Resources[ArchiveID]
	kept := slices.Contains(s.Retained, ArchiveID) || strings.Contains(s.Template, "DeletionPolicy: Retain")
	stuck := c.Buckets[archive] != nil && len(c.Buckets[archive].Objects) > 0 && !kept

	s.Steps = []Step{{Status: s.Status}, {Status: "DELETE_IN_PROGRESS"}}
	switch why := c.Failing[TableID]; {
	case why != "":
		s.Steps = append(s.Steps, Step{
			Status: "DELETE_FAILED", Events: []Event{{Resource: TableID, Status: "DELETE_FAILED", Reason: why}},
		})
	case stuck:
		s.Steps = append(s.Steps, Step{
			Status: "DELETE_FAILED",
			Events: []Event{{
				Resource: ArchiveID, Status: "DELETE_FAILED",
				Reason: "The bucket you tried to delete is not empty",
			}},
		})
	default:
		s.Steps = append(s.Steps, Step{Status: "DELETE_COMPLETE", Do: func() {
			c.DropTable(s.Name)
			if !kept {
				delete(c.Buckets, archive)
			}
		}})
	}
	return xmlResult(r.Op, "")
}
