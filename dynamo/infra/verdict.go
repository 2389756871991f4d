package infra

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// setVerdict derives the verdict, the problems and the cost hints from the results of
// the probes.
func (st *Status) setVerdict(s *session) {
	// Without CloudFormation there is no Lambda either, whatever responded.
	if st.lacksCloudFormation() {
		st.Aggregator, st.Provisioner, st.EventSource =
			FunctionStatus{Name: st.Aggregator.Name}, FunctionStatus{Name: st.Provisioner.Name}, EventSourceStatus{}
	}

	st.Versions.Stack = st.Stack.Tags[tagVersion]
	if st.Aggregator.Exists {
		st.Versions.Lambda = cmp.Or(st.Aggregator.Version, st.Stack.Tags[tagLambdaVersion])
	}

	st.addCostHints()
	st.Verdict = Ready
	// The worst finding comes last, so its verdict stays, and its problems come
	// first in the list.
	for _, find := range []struct {
		verdict Verdict
		in      func(*session) problems
	}{
		{Uncertain, st.unknowns},
		{Degraded, st.defects},
		{Changing, st.changes},
		{Broken, st.failures},
		{Unreachable, st.outages},
	} {
		// A table that is not available probably has the same cause.
		if !st.Available && (find.verdict == Uncertain || find.verdict == Degraded) {
			continue
		}

		if found := find.in(s); len(found.sentences) > 0 {
			st.Verdict = find.verdict
			st.Problems = append(found.sentences, st.Problems...)
			st.Remedies = append(st.Remedies, found.remedies...)
		}
	}
}

// problems is a list of sentences, and of the remedies that they name.
type problems struct {
	sentences []string
	remedies  []*dynamo.Remedy
}

// add appends a formatted problem if when is true, with the remedies among its
// arguments.
func (p *problems) add(when bool, format string, args ...any) {
	if !when {
		return
	}

	p.sentences = append(p.sentences, fmt.Sprintf(format, args...))
	for _, arg := range args {
		if r, ok := arg.(*dynamo.Remedy); ok {
			p.remedies = append(p.remedies, r)
		}
	}
}

// lacksCloudFormation reports whether the endpoint does not serve CloudFormation.
func (st *Status) lacksCloudFormation() bool { return !st.Stack.Exists && st.Stack.Reason != "" }

// outages returns the reasons why the table is not available.
func (st *Status) outages(s *session) problems {
	var p problems

	switch t := st.Table; {
	case st.Available:
	case t.Exists:
		p.add(true, "the table is %s", t.Status)
	case t.Error != "":
		p.add(true, "the table could not be checked: %s", t.Error)
	case st.lacksCloudFormation():
		p.add(true, "there is no table %s in region %s; %v creates it", st.Name, st.Region,
			s.remedy(remedy.CreateTable, st.Name))
	default:
		p.add(true, "there is no table %s in region %s; %v creates it", st.Name, st.Region,
			s.remedy(remedy.Deploy, st.Name))
	}
	return p
}

// failures returns failed operations on the stack.
func (st *Status) failures(*session) problems {
	var p problems
	status := st.Stack.Status
	isDone := strings.HasSuffix(status, "_COMPLETE") && status != "ROLLBACK_COMPLETE"
	// A rollback of a creation ends in COMPLETE, but leaves nothing. A stack in
	// review has only a change set.
	failed := !isDone && !isBusyStatus(status) || status == "ROLLBACK_IN_PROGRESS" || status == "REVIEW_IN_PROGRESS"
	p.add(st.Stack.Exists && failed, "the stack is in state %s%s", status, reasonSuffix(st.Stack.Reason))
	p.add(st.Versions.Refused != "", "%s", st.Versions.Refused)
	return p
}

// reasonSuffix returns a reason as the end of a sentence, or "".
func reasonSuffix(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// changes returns operations in progress.
func (st *Status) changes(s *session) problems {
	var p problems
	busy := isBusyStatus(st.Stack.Status) && len(st.failures(s).sentences) == 0
	p.add(busy, "the stack is in state %s", st.Stack.Status)
	return p
}

// defects returns everything that differs from the deployed state.
func (st *Status) defects(s *session) problems {
	var p problems

	alone := !st.Stack.Exists && st.Stack.Error == ""
	p.add(st.Available && alone, "the table belongs to no stack, so it has no functions, policies and alarms%s",
		reasonSuffix(st.Stack.Reason))

	p.add(st.Stack.Status == "UPDATE_ROLLBACK_COMPLETE", "the last update of the stack failed and was rolled back")

	for _, index := range st.Table.Indexes {
		p.add(index.Status != "ACTIVE", "index %s is %s", index.Name, index.Status)
	}

	// The stores query these indexes, so a table that lacks one is of another
	// version or incomplete.
	for _, name := range []string{"GSI1", "GSI2", "GSI3", "GSI4"} {
		there := slices.ContainsFunc(st.Table.Indexes, func(index IndexStatus) bool { return index.Name == name })
		p.add(st.Table.Exists && !there, "the table has no index %s", name)
	}

	p.add(st.Table.Exists && st.Table.Stream == "", "the table has no stream, so usage is not counted")
	p.add(st.Table.TTL != "" && !strings.HasPrefix(st.Table.TTL, "ENABL"), "expiry (TTL) is disabled in the table")

	deployed := stackFromParameters(func(key string) string { return st.Stack.Parameters[key] })
	// During an operation a function may be missing for a while, and a stack of
	// the Python tool has no code of ours.
	complete := st.Stack.Exists && !isBusyStatus(st.Stack.Status) && st.Stack.Parameters[paramCodeKey] != ""

	const gone = "function %s does not exist; %v creates it again, with its resources"
	p.add(complete && deployed.HasAggregator() && st.Aggregator.isGone(), gone, st.Aggregator.Name,
		s.remedy(remedy.DeployAggregator, st.Name))
	p.add(complete && deployed.HasProvisioner() && st.Provisioner.isGone(), gone, st.Provisioner.Name,
		s.remedy(remedy.DeployProvisioner, st.Name))

	for _, f := range []FunctionStatus{st.Aggregator, st.Provisioner} {
		p.add(f.Exists && f.State != "Active" && f.State != "Inactive" && f.State != "", "function %s is %s%s",
			f.Name, f.State, reasonSuffix(f.Reason))
		p.add(f.LastUpdate == "Failed", "the last update of function %s failed%s", f.Name, reasonSuffix(f.Reason))
		p.add(f.Exists && st.foreignCode(f), "function %s does not have the deployed code; %v restores it", f.Name,
			s.remedy(remedy.RestoreCode, f.Name, st.Stack.Parameters[paramCodeBucket],
				st.Stack.Parameters[paramCodeKey]))
	}

	p.add(st.Aggregator.Exists && !st.EventSource.Exists && st.EventSource.Error == "",
		"the aggregator has no event source, so usage is not counted")
	p.add(st.EventSource.Exists && st.EventSource.State != "Enabled", "the event source of the aggregator is %s%s",
		st.EventSource.State, reasonSuffix(st.EventSource.Reason))
	p.add(strings.HasPrefix(st.EventSource.LastResult, "PROBLEM"), "the aggregator's last run failed: %s",
		st.EventSource.LastResult)

	p.add(st.DeadLetters.Messages > 0, "%d changes could not be counted and are in queue %s",
		st.DeadLetters.Messages, st.DeadLetters.URL)

	unprepared := st.Available && st.Versions.Schema == "" && st.Versions.Error == ""
	finish, migrate := remedy.Deploy, remedy.Upgrade
	if alone {
		finish, migrate = remedy.CreateTable, remedy.MigrateTable
	}

	p.add(unprepared,
		"the table has no version record; %v finishes its creation, and %v migrates data that predate version records",
		s.remedy(finish, st.Name), s.remedy(migrate, st.Name))
	p.add(!unprepared && len(st.Versions.Pending) > 0, "data of an older version need %v",
		s.remedy(migrate, st.Name))

	for _, a := range st.Alarms.List {
		p.add(a.State == "ALARM", "alarm %s: %s", a.Name, a.Reason)
	}

	return p
}

func (f FunctionStatus) isGone() bool { return !f.Exists && f.Error == "" }

// foreignCode reports whether a function has other code than its stack. It compares
// only with a key that contains the hash.
func (st *Status) foreignCode(f FunctionStatus) bool {
	key := st.Stack.Parameters[paramCodeKey]
	hash := strings.TrimSuffix(strings.TrimPrefix(key, codePrefix), codeSuffix)
	return len(hash) == hex.EncodedLen(sha256.Size) && f.SHA256 != "" && key != codeKey(f.SHA256)
}

// unknowns returns the probes that failed. That of the table is among the outages
// unless the table is available.
func (st *Status) unknowns(*session) problems {
	var p problems
	for _, probe := range []struct{ name, failure string }{
		{"stack", st.Stack.Error},
		{"version record", st.Versions.Error},
		{"aggregator", st.Aggregator.Error},
		{"provisioner", st.Provisioner.Error},
		{"aggregator's event source", st.EventSource.Error},
		{"dead letter queue", st.DeadLetters.Error},
		{"alarms", st.Alarms.Error},
	} {
		p.add(probe.failure != "", "%s: %s", probe.name, probe.failure)
	}

	p.add(st.Available && st.Table.Error != "", "table: %s", st.Table.Error)
	return p
}

// addCostHints lists what AWS bills for, without prices, because they differ by
// region.
func (st *Status) addCostHints() {
	var p problems

	size := float64(st.Table.Bytes) / (1 << 30)

	p.add(st.Table.Exists,
		"the table is billed by requests and by its size, %.2f GB; every write is billed again for each "+
			"index that holds an attribute it changes",
		size)

	p.add(st.Table.RecoveryDays > 0, "its point-in-time recovery of %d days is billed by its size",
		st.Table.RecoveryDays)

	p.add(st.Aggregator.Exists,
		"the aggregator is billed by its runs, at %d MB; fewer snapshot windows make it cheaper",
		st.Aggregator.MemoryMB)

	p.add(len(st.Alarms.List) > 0, "%d alarms are billed by the month each", len(st.Alarms.List))
	p.add(st.Stack.Outputs["AuditArchiveBucketName"] != "",
		"archived audit events are billed by the size of bucket %s", st.Stack.Outputs["AuditArchiveBucketName"])

	st.CostHints = append(st.CostHints, p.sentences...)
}
