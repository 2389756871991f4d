package infra_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

func (c *cloud) createChangeSet(asked *cloudCall, s *cloudStack) *reply {
	if strings.HasSuffix(s.status, "_IN_PROGRESS") {
		return failed(asked, 400, "ValidationError", "Stack:"+s.id+" is in "+s.status+" state and can not be updated.")
	}
	name := asked.form.Get("ChangeSetName")
	set := &changeSet{
		id: "arn:aws:cloudformation:" + region + ":" + accountID + ":changeSet/" + name, looks: 1,
		template: asked.form.Get("TemplateBody"), tags: c.listed(asked, "Tags", "Key", "Value"),
		changes: c.changes,
	}
	if asked.form.Get("UsePreviousTemplate") == "true" {
		set.template = s.template
	}
	set.parameters = with(defaults(set.template), c.listed(asked, "Parameters", "ParameterKey", "ParameterValue"))
	for key, kept := range c.listed(asked, "Parameters", "ParameterKey", "UsePreviousValue") {
		if kept != "true" {
			continue
		}
		before, ok := s.parameters[key]
		if !ok {
			return failed(asked, 400, "ValidationError", "Invalid input for parameter key "+key+". Cannot specify usePreviousValue as true for a parameter key not in the previous template")
		}
		set.parameters[key] = before
	}
	if set.changes == nil {
		set.changes = []change{{"Modify", functionID, kinds[functionID], "False", ""}}
	}
	set.status = "CREATE_COMPLETE"
	if set.template == s.template && maps.Equal(set.parameters, s.parameters) && maps.Equal(set.tags, s.tags) {
		set.status, set.reason, set.changes = "FAILED", "The submitted information didn't contain changes. Submit different information to create a change set.", nil
	}
	s.sets[set.id] = set
	return result(asked.op, "<Id>"+set.id+"</Id><StackId>"+s.id+"</StackId>")
}

// changeSet answers what is asked about one.
func (c *cloud) changeSet(asked *cloudCall) *reply {
	id := asked.form.Get("ChangeSetName")
	i := slices.IndexFunc(c.stacks, func(s *cloudStack) bool { return s.sets[id] != nil })
	if i < 0 {
		return failed(asked, 404, "ChangeSetNotFound", "ChangeSet ["+id+"] does not exist")
	}
	s := c.stacks[i]
	set := s.sets[id]
	switch asked.op {
	case "DescribeChangeSet":
		return set.describe(asked)
	case "DeleteChangeSet":
		delete(s.sets, id)
		return result(asked.op, "")
	}
	if set.status != "CREATE_COMPLETE" || strings.HasSuffix(s.status, "_IN_PROGRESS") {
		return failed(asked, 400, "InvalidChangeSetStatus", "ChangeSet ["+id+"] cannot be executed in its current status")
	}
	c.execute(s, set)
	return result(asked.op, "")
}

// describe has one change on a page, and none before it was looked at a few
// times.
func (set *changeSet) describe(asked *cloudCall) *reply {
	if set.looks > 0 {
		set.looks--
		return result(asked.op, "<ChangeSetId>"+set.id+"</ChangeSetId><Status>CREATE_IN_PROGRESS</Status>")
	}
	var first int
	_, _ = fmt.Sscan(asked.form.Get("NextToken"), &first) // none is the beginning
	text := fmt.Sprintf("<ChangeSetId>%s</ChangeSetId><Status>%s</Status><StatusReason>%s</StatusReason><Changes>", set.id, set.status, escaped(set.reason))
	if first < len(set.changes) {
		ch := set.changes[first]
		text += fmt.Sprintf("<member><Type>Resource</Type><ResourceChange><Action>%s</Action><LogicalResourceId>%s</LogicalResourceId><PhysicalResourceId>p</PhysicalResourceId><ResourceType>%s</ResourceType><Replacement>%s</Replacement><Scope><member>Properties</member></Scope>%s</ResourceChange></member>",
			ch.action, ch.resource, ch.kind, ch.replacement, ch.details)
	}
	text += "</Changes>"
	if first+1 < len(set.changes) {
		text += fmt.Sprintf("<NextToken>%d</NextToken>", first+1)
	}
	return result(asked.op, text)
}

// execute begins an update. The stack is at rest for one look more, as real ones
// are.
func (c *cloud) execute(s *cloudStack, set *changeSet) {
	clear(s.sets)
	set.status = "EXECUTED"
	before := s.status
	s.steps = []step{{status: before}, {status: "UPDATE_IN_PROGRESS"}}
	if why := c.failing[functionID]; why != "" {
		s.steps = append(s.steps,
			step{status: "UPDATE_ROLLBACK_IN_PROGRESS", events: []event{{Resource: functionID, Status: "UPDATE_FAILED", Reason: why}}},
			step{status: "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS"}, step{status: "UPDATE_ROLLBACK_COMPLETE"})
		return
	}
	s.steps = append(s.steps,
		step{status: "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", events: []event{{Resource: functionID, Status: "UPDATE_COMPLETE"}}},
		step{status: "UPDATE_COMPLETE", do: func() {
			s.template, s.parameters, s.tags, s.updated = set.template, set.parameters, set.tags, c.now()
		}})
}

func (c *cloud) deleteStack(asked *cloudCall, s *cloudStack) *reply {
	for i := 1; asked.form.Has(fmt.Sprintf("RetainResources.member.%d", i)); i++ {
		if s.status != "DELETE_FAILED" {
			return failed(asked, 400, "ValidationError", "retainResources is only for a stack whose deletion failed")
		}
		s.retained = append(s.retained, asked.form.Get(fmt.Sprintf("RetainResources.member.%d", i)))
	}
	archive := s.resources[archiveID]
	kept := slices.Contains(s.retained, archiveID) || strings.Contains(s.template, "DeletionPolicy: Retain")
	stuck := c.buckets[archive] != nil && len(c.buckets[archive].objects) > 0 && !kept
	s.steps = []step{{status: s.status}, {status: "DELETE_IN_PROGRESS"}}
	switch why := c.failing[tableID]; {
	case why != "":
		s.steps = append(s.steps, step{status: "DELETE_FAILED", events: []event{{Resource: tableID, Status: "DELETE_FAILED", Reason: why}}})
	case stuck:
		s.steps = append(s.steps, step{status: "DELETE_FAILED", events: []event{{Resource: archiveID, Status: "DELETE_FAILED", Reason: "The bucket you tried to delete is not empty"}}})
	default:
		s.steps = append(s.steps, step{status: "DELETE_COMPLETE", do: func() {
			c.dropTable(s.name)
			if !kept {
				delete(c.buckets, archive)
			}
		}})
	}
	return result(asked.op, "")
}
