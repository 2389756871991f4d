package infra

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

const (
	shortestStack = 3  // as a table's name
	longestStack  = 55 // as everywhere else
	longestLambda = 64

	aggregatorSuffix  = "-aggregator"
	provisionerSuffix = "-limits-provisioner"
)

var logRetentions = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}

// Validate judges everything that can be judged before any call, for a stack of
// that name: nil, or the first mistake as a *limiter.InvalidError.
func (s Stack) Validate(name string) error {
	s = s.WithDefaults()
	return cmp.Or(s.checkAlone(name), s.checkParts(name))
}

// checkAlone judges every field by itself.
func (s Stack) checkAlone(name string) error {
	return cmp.Or(
		checkStackName(name),
		s.checkWindows(),
		s.checkNumbers(),
		s.checkFunctions(),
		s.checkIAM(),
		roleNaming.check(s.RoleNameFormat, name, nil),
		policyNaming.check(s.PolicyNameFormat, name, nil),
		checkBucketName(s.ArtifactBucket),
		checkTags(s.Tags),
	)
}

// checkParts judges whether what is made has a name that fits.
func (s Stack) checkParts(name string) error {
	return cmp.Or(
		s.checkLength(name),
		roleNaming.check(s.RoleNameFormat, name, s.roles()),
		policyNaming.check(s.PolicyNameFormat, name, s.policies()),
	)
}

// checkStackName judges what every stack's name has to be.
func checkStackName(name string) error {
	refuse := func(reason string) error { return invalid("name", name, reason) }
	switch {
	case name == "":
		return refuse("must not be empty")
	case strings.Contains(name, "_"):
		return refuse("must not contain underscores; use hyphens")
	case strings.Contains(name, "."):
		return refuse("must not contain dots; use hyphens")
	case strings.Contains(name, " "):
		return refuse("must not contain spaces; use hyphens")
	case !isLetter(name[0]) || !onlyRunes(name, func(r rune) bool { return isAlphanumeric(r) || r == '-' }):
		return refuse("must begin with a letter, then letters, digits or hyphens")
	case len(name) < shortestStack:
		return refuse(fmt.Sprintf("must be at least %d characters", shortestStack))
	case len(name) > longestStack:
		return refuse(fmt.Sprintf("must be at most %d characters", longestStack))
	}
	return nil
}

func isLetter(c byte) bool { return isAlphanumeric(rune(c)) && (c < '0' || c > '9') }

// checkLength leaves room for the names of the functions.
func (s Stack) checkLength(name string) error {
	for _, function := range []struct {
		made          bool
		which, suffix string
	}{
		{s.HasProvisioner(), "provisioner", provisionerSuffix},
		{s.HasAggregator(), "aggregator", aggregatorSuffix},
	} {
		if most := longestLambda - len(function.suffix); function.made && len(name) > most {
			return invalid("name", name, fmt.Sprintf("must be at most %d characters with the %s, whose function is called that and %s",
				most, function.which, function.suffix))
		}
	}
	return nil
}

func (s Stack) checkWindows() error {
	var seen []string
	for window := range strings.SplitSeq(s.SnapshotWindows, ",") {
		known := slices.Contains([]limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly}, limiter.Window(window))
		if !known || slices.Contains(seen, window) {
			return invalid("snapshot windows", s.SnapshotWindows, "must be hourly, daily and monthly, each at most once, such as hourly,daily")
		}
		seen = append(seen, window)
	}
	return nil
}

func (s Stack) checkNumbers() error {
	for _, n := range []struct {
		field              string
		value, least, most int
		optional           bool
	}{
		{"usage retention days", s.UsageRetentionDays, 1, 3650, false},
		{"audit retention days", s.AuditRetentionDays, 1, math.MaxInt32, true},
		{"recovery days", s.PITRRecoveryDays, 1, 35, true},
		{"function memory", s.LambdaMemory, 128, 3008, false},
		{"days until Glacier", s.ArchiveGlacierDays, 1, 3650, false},
		{"duration threshold", s.DurationThresholdPct, 1, 100, false},
	} {
		if n.optional && n.value == 0 {
			continue
		}
		if n.value < n.least || n.value > n.most {
			return invalid(n.field, strconv.Itoa(n.value), fmt.Sprintf("must be from %d to %d", n.least, n.most))
		}
	}
	return nil
}

func (s Stack) checkFunctions() error {
	if t := s.LambdaTimeout; t < time.Second || t > 15*time.Minute || t%time.Second != 0 {
		return invalid("function timeout", t.String(), "must be whole seconds, from 1 to 900")
	}
	if !slices.Contains(logRetentions, s.LogRetentionDays) {
		return invalid("log retention days", strconv.Itoa(s.LogRetentionDays), "must be one of "+strings.Trim(fmt.Sprint(logRetentions), "[]"))
	}
	if !slices.Contains([]string{"DEBUG", "INFO", "WARN", "ERROR"}, s.LogLevel) {
		return invalid("log level", s.LogLevel, "must be DEBUG, INFO, WARN or ERROR")
	}
	return checkArchitecture(s.Architecture)
}

func checkArchitecture(name string) error {
	if machines[name] == 0 {
		return invalid("architecture", name, "must be "+ARM64+" or "+X8664)
	}
	return nil
}

func (s Stack) checkIAM() error {
	if s.NoIAM && s.IAMRoles {
		return invalid("IAM roles", "", "roles cannot be made without IAM; choose one of the two")
	}
	return cmp.Or(
		checkRoleARN("aggregator role ARN", s.AggregatorRoleARN),
		checkRoleARN("provisioner role ARN", s.ProvisionerRoleARN),
		checkTopicARN(s.AlarmTopicARN),
		checkBoundary(s.PermissionBoundary),
	)
}

// roles are those that the stack makes.
func (s Stack) roles() []named {
	var all []named
	if s.NoIAM {
		return nil
	}
	if s.HasAggregator() && s.AggregatorRoleARN == "" {
		all = append(all, aggregatorRole)
	}
	if s.HasProvisioner() && s.ProvisionerRoleARN == "" {
		all = append(all, provisionerRole)
	}
	if s.IAMRoles {
		all = append(all, appRoles...)
	}
	return all
}

// policies are those that the stack makes.
func (s Stack) policies() []named {
	if s.NoIAM {
		return nil
	}
	return policies
}
