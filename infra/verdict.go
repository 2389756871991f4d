package infra

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/hint"
)

// conclude fills in what follows from the probes. Problems suggest commands that
// go to the place.
func (st *Status) conclude(at hint.Place) {
	if st.isBare() { // who serves no stacks serves no functions, whatever the answer was
		st.Aggregator, st.Provisioner, st.EventSource = FunctionStatus{Name: st.Aggregator.Name}, FunctionStatus{Name: st.Provisioner.Name}, EventSourceStatus{}
	}
	st.Versions.Stack = st.Stack.Tags[tagVersion]
	if st.Aggregator.Exists {
		st.Versions.Lambda = cmp.Or(st.Aggregator.Version, st.Stack.Tags[tagLambdaVersion])
	}
	st.hintCosts()
	st.Verdict = Ready
	for _, find := range []struct {
		verdict Verdict
		in      func(hint.Place) []string
	}{
		{Uncertain, st.unknown}, {Degraded, st.defects}, {Changing, st.changing}, {Broken, st.failures}, {Unreachable, st.outage},
	} {
		if !st.Available && (find.verdict == Uncertain || find.verdict == Degraded) { // most likely for the same reason
			continue
		}
		if problems := find.in(at); len(problems) > 0 {
			st.Verdict = find.verdict
			st.Problems = append(problems, st.Problems...)
		}
	}
}

// problems collects sentences.
type problems []string

func (p *problems) add(when bool, format string, args ...any) {
	if when {
		*p = append(*p, fmt.Sprintf(format, args...))
	}
}

// isBare reports whether there is no CloudFormation where the table is.
func (st *Status) isBare() bool { return !st.Stack.Exists && st.Stack.Reason != "" }

func (st *Status) outage(at hint.Place) []string {
	var p problems
	switch t := st.Table; {
	case st.Available:
	case t.Exists:
		p.add(true, "the table is %s", t.Status)
	case t.Error != "":
		p.add(true, "the table cannot be asked: %s", t.Error)
	case st.isBare():
		p.add(true, "there is no table %s in region %s; %s makes it", st.Name, st.Region, at.Command("table", "create", st.Name))
	default:
		p.add(true, "there is no table %s in region %s; %s makes it", st.Name, st.Region, at.Command("deploy", "--name", st.Name))
	}
	return p
}

func (st *Status) failures(hint.Place) []string {
	var p problems
	status := st.Stack.Status
	isDone := strings.HasSuffix(status, "_COMPLETE") && status != "ROLLBACK_COMPLETE"
	failed := !isDone && !isBusyStatus(status) || status == "ROLLBACK_IN_PROGRESS" || status == "REVIEW_IN_PROGRESS"
	p.add(st.Stack.Exists && failed, "the stack is in state %s%s", status, because(st.Stack.Reason))
	p.add(st.Versions.Refused != "", "%s", st.Versions.Refused)
	return p
}

// because is a reason after what it is for, if there is one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func (st *Status) changing(at hint.Place) []string {
	var p problems
	p.add(isBusyStatus(st.Stack.Status) && len(st.failures(at)) == 0, "the stack is in state %s", st.Stack.Status)
	return p
}

// defects are what works worse than it was deployed to.
func (st *Status) defects(at hint.Place) []string {
	var p problems
	alone := !st.Stack.Exists && st.Stack.Error == ""
	p.add(st.Available && alone, "the table belongs to no stack, so it has no functions, policies and alarms%s", because(st.Stack.Reason))
	p.add(st.Stack.Status == "UPDATE_ROLLBACK_COMPLETE", "the last update of the stack failed and was undone")
	for _, index := range st.Table.Indexes {
		p.add(index.Status != "ACTIVE", "index %s is %s", index.Name, index.Status)
	}
	for _, name := range []string{"GSI1", "GSI2", "GSI3", "GSI4"} {
		there := slices.ContainsFunc(st.Table.Indexes, func(index IndexStatus) bool { return index.Name == name })
		p.add(st.Table.Exists && !there, "the table has no index %s", name)
	}
	p.add(st.Table.Exists && st.Table.Stream == "", "the table has no stream, so usage is not counted")
	p.add(st.Table.TTL != "" && !strings.HasPrefix(st.Table.TTL, "ENABL"), "the table does not remove what has expired")
	deployed := settingsOf(func(key string) string { return st.Stack.Parameters[key] })
	complete := st.Stack.Exists && !isBusyStatus(st.Stack.Status) && st.Stack.Parameters[paramCodeKey] != ""
	p.add(complete && deployed.HasAggregator() && st.Aggregator.isGone(), "%s", st.gone(at, st.Aggregator, "aggregator"))
	p.add(complete && deployed.HasProvisioner() && st.Provisioner.isGone(), "%s", st.gone(at, st.Provisioner, "provisioner"))
	for _, f := range []FunctionStatus{st.Aggregator, st.Provisioner} {
		p.add(f.Exists && f.State != "Active" && f.State != "Inactive" && f.State != "", "function %s is %s%s", f.Name, f.State, because(f.Reason))
		p.add(f.LastUpdate == "Failed", "the last update of function %s failed%s", f.Name, because(f.Reason))
		p.add(f.Exists && st.foreignCode(f), "function %s has other code than was deployed; %s brings it back", f.Name, at.AWS("lambda", "update-function-code",
			"--function-name", f.Name, "--s3-bucket", st.Stack.Parameters[paramCodeBucket], "--s3-key", st.Stack.Parameters[paramCodeKey]))
	}
	p.add(st.Aggregator.Exists && !st.EventSource.Exists && st.EventSource.Error == "", "nothing brings changes to the aggregator, so usage is not counted")
	p.add(st.EventSource.Exists && st.EventSource.State != "Enabled", "what brings changes to the aggregator is %s%s", st.EventSource.State, because(st.EventSource.Reason))
	p.add(strings.HasPrefix(st.EventSource.LastResult, "PROBLEM"), "the aggregator's last run failed: %s", st.EventSource.LastResult)
	p.add(st.DeadLetters.Messages > 0, "%d changes could not be counted and wait in %s", st.DeadLetters.Messages, st.DeadLetters.URL)
	unprepared := st.Available && st.Versions.Schema == "" && st.Versions.Error == ""
	finish, migrate := at.Command("deploy", "--name", st.Name), at.Command("upgrade", "--name", st.Name)
	if alone {
		finish, migrate = at.Command("table", "create", st.Name), at.Command("table", "migrate", st.Name)
	}
	p.add(unprepared, "the table has no version record; %s finishes its creation, and %s migrates data from before there were any", finish, migrate)
	p.add(!unprepared && len(st.Versions.Pending) > 0, "data of an older version wait for %s", migrate)
	for _, a := range st.Alarms.List {
		p.add(a.State == "ALARM", "alarm %s: %s", a.Name, a.Reason)
	}
	return p
}

func (f FunctionStatus) isGone() bool { return !f.Exists && f.Error == "" }

func (st *Status) gone(at hint.Place, f FunctionStatus, which string) string {
	return fmt.Sprintf("function %s is gone; %s and then --enable-%s makes it again, with all that belongs to it",
		f.Name, at.Command("deploy", "--name", st.Name, "--no-"+which), which)
}

// foreignCode tells whether a function's code is not what its stack says, if its
// name is one that we gave: it has the hash.
func (st *Status) foreignCode(f FunctionStatus) bool {
	key := st.Stack.Parameters[paramCodeKey]
	hash := strings.TrimSuffix(strings.TrimPrefix(key, codePrefix), codeSuffix)
	return len(hash) == hex.EncodedLen(sha256.Size) && f.SHA256 != "" && key != codeKey(f.SHA256)
}

// unknown are probes that failed, but for the table's own, without which there
// is no more to say.
func (st *Status) unknown(hint.Place) []string {
	var p problems
	for _, probe := range []struct{ what, failure string }{
		{"stack", st.Stack.Error},
		{"version record", st.Versions.Error},
		{"aggregator", st.Aggregator.Error},
		{"provisioner", st.Provisioner.Error},
		{"aggregator's event source", st.EventSource.Error},
		{"dead letter queue", st.DeadLetters.Error},
		{"alarms", st.Alarms.Error},
	} {
		p.add(probe.failure != "", "%s: %s", probe.what, probe.failure)
	}
	p.add(st.Available && st.Table.Error != "", "table: %s", st.Table.Error)
	return p
}

// hintCosts names what the account is billed for, without prices, which differ.
func (st *Status) hintCosts() {
	var p problems
	size := float64(st.Table.Bytes) / (1 << 30)
	p.add(st.Table.Exists, "the table is billed by requests and by its size, %.2f GB; every write is billed again for each of its %d indexes that has the item", size, len(st.Table.Indexes))
	p.add(st.Table.RecoveryDays > 0, "its backups, which reach back %d days, are billed by its size", st.Table.RecoveryDays)
	p.add(st.Aggregator.Exists, "the aggregator is billed by its runs, at %d MB; fewer snapshot windows make it cheaper", st.Aggregator.MemoryMB)
	p.add(len(st.Alarms.List) > 0, "%d alarms are billed by the month each", len(st.Alarms.List))
	p.add(st.Stack.Outputs["AuditArchiveBucketName"] != "", "archived audit events are billed by the size of bucket %s", st.Stack.Outputs["AuditArchiveBucketName"])
	st.CostHints = append(st.CostHints, p...)
}
