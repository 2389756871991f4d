package infra

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// Capacity providers of a load stack.
const (
	FargateSpot = "FARGATE_SPOT"
	Fargate     = "FARGATE"
)

// LoadStack configures the stack of a load test. The zero value of a field is its
// documented default.
type LoadStack struct {
	VPC     string   // the VPC of the master and its workers; required
	Subnets []string // two or more subnets of the VPC; required

	MaxWorkers     int // workers at a time, 1 to 1000; default 100
	MinWorkers     int // workers that stay connected, 1 to MaxWorkers; default 1
	UsersPerWorker int // default 10
	// StartupLead is the time that a worker takes to connect, up to 2 minutes;
	// default 20 s, negative for none.
	StartupLead time.Duration
	// Timeout is the timeout of the worker function, in whole seconds from 1 to 15
	// minutes; default 5 minutes.
	Timeout time.Duration
	// Memory is the memory of the worker function in MB, 128 to 10240; default 1769,
	// which gives it one processor.
	Memory int
	// CapacityProvider is FargateSpot or Fargate; default FargateSpot.
	CapacityProvider string
	SSMEndpoints     bool // creates interface endpoints for Systems Manager
	// NoDynamoDBEndpoint creates no gateway endpoint for DynamoDB. Default: one is
	// created, unless the VPC has one.
	NoDynamoDBEndpoint bool
}

// WithDefaults returns s with the default of each zero field.
func (s LoadStack) WithDefaults() LoadStack {
	s.MaxWorkers = cmp.Or(s.MaxWorkers, 100)
	s.MinWorkers = cmp.Or(s.MinWorkers, 1)
	s.UsersPerWorker = cmp.Or(s.UsersPerWorker, 10)
	s.StartupLead = cmp.Or(s.StartupLead, 20*time.Second)
	s.Timeout = cmp.Or(s.Timeout, 5*time.Minute)
	s.Memory = cmp.Or(s.Memory, 1769)
	s.CapacityProvider = cmp.Or(s.CapacityProvider, FargateSpot)
	return s
}

var (
	vpcID    = regexp.MustCompile(`^vpc-[0-9a-f]{8,17}$`)
	subnetID = regexp.MustCompile(`^subnet-[0-9a-f]{8,17}$`)
)

// Validate checks the settings without any call. It returns the first problem as a
// *limiter.InvalidError.
func (s LoadStack) Validate() error {
	s = s.WithDefaults()
	return cmp.Or(s.checkNetwork(), s.checkNumbers(), s.checkRuntime())
}

func (s LoadStack) checkNetwork() error {
	// A function can be in 16 subnets at most.
	const minSubnets, maxSubnets = 2, 16

	if !vpcID.MatchString(s.VPC) {
		return invalid("VPC", s.VPC, "must be the ID of a VPC, such as vpc-0123456789abcdef0")
	}

	for i, id := range s.Subnets {
		if !subnetID.MatchString(id) {
			return invalid("subnet", id, "must be the ID of a subnet, such as subnet-0123456789abcdef0")
		}
		if slices.Contains(s.Subnets[:i], id) {
			return invalid("subnet", id, "must occur once")
		}
	}

	if n := len(s.Subnets); n < minSubnets || n > maxSubnets {
		return invalid("subnets", strings.Join(s.Subnets, ","), fmt.Sprintf("must be %d to %d", minSubnets, maxSubnets))
	}
	return nil
}

func (s LoadStack) checkNumbers() error {
	for _, n := range []struct {
		field           string
		value, min, max int
	}{
		{"maximum of workers", s.MaxWorkers, 1, 1000},
		{"minimum of workers", s.MinWorkers, 1, s.MaxWorkers},
		{"users per worker", s.UsersPerWorker, 1, 100_000},
		{"function memory", s.Memory, 128, 10_240},
	} {
		if n.value < n.min || n.value > n.max {
			return invalid(n.field, strconv.Itoa(n.value), fmt.Sprintf("must be from %d to %d", n.min, n.max))
		}
	}
	return nil
}

func (s LoadStack) checkRuntime() error {
	// A negative time stands for none, so it needs no whole seconds.
	if t := s.StartupLead; t > 2*time.Minute || t > 0 && t%time.Second != 0 {
		return invalid("startup lead time", t.String(), "must be whole seconds, at most 120")
	}

	if t := s.Timeout; t < time.Minute || t > 15*time.Minute || t%time.Second != 0 {
		return invalid("function timeout", t.String(), "must be whole seconds, from 60 to 900")
	}

	if s.CapacityProvider != FargateSpot && s.CapacityProvider != Fargate {
		return invalid("capacity provider", s.CapacityProvider, "must be "+FargateSpot+" or "+Fargate)
	}
	return nil
}

// Parameters of the load template that several functions use.
const (
	paramTarget       = "TargetStackName"
	paramImageTag     = "ImageTag"
	paramRouteTables  = "PrivateRouteTableIds"
	paramRoleFormat   = "RoleNameFormat"
	paramBoundary     = "PermissionBoundary"
	paramAlarmTopic   = "AlarmSNSTopicArn"
	endpointResource  = "DynamoDBEndpoint" // logical ID
	outputFormat      = "RoleNameFormat"
	outputBoundary    = "PermissionBoundaryArn"
	outputFullAccess  = "FullAccessPolicyArn"
	outputAcquireOnly = "AcquireOnlyPolicyArn"
	outputRepository  = "LocustRepositoryUri"
)

// parameters returns the parameters of the load template for the settings.
func (s LoadStack) parameters() []parameter {
	s = s.WithDefaults()
	return []parameter{
		{"VpcId", s.VPC},
		{"PrivateSubnetIds", strings.Join(s.Subnets, ",")},
		{"MaxWorkers", strconv.Itoa(s.MaxWorkers)},
		{"MinWorkers", strconv.Itoa(s.MinWorkers)},
		{"UsersPerWorker", strconv.Itoa(s.UsersPerWorker)},
		{"StartupLeadTime", strconv.Itoa(int(max(0, s.StartupLead) / time.Second))},
		{"LambdaTimeout", strconv.Itoa(int(s.Timeout / time.Second))},
		{"LambdaMemory", strconv.Itoa(s.Memory)},
		{"CapacityProvider", s.CapacityProvider},
		{"CreateSsmEndpoint", strconv.FormatBool(s.SSMEndpoints)},
		{"CreateDynamoDBEndpoint", strconv.FormatBool(!s.NoDynamoDBEndpoint)},
	}
}

// loadStackOf returns the settings of a deployed load stack. It is the inverse of
// LoadStack.parameters.
func loadStackOf(stack *cfn.Stack) LoadStack {
	text := func(key string) string { value, _ := parameterOf(*stack, key); return value }
	number := func(key string) int { n, _ := strconv.Atoi(text(key)); return n }

	s := LoadStack{
		VPC: text("VpcId"), Subnets: strings.FieldsFunc(text("PrivateSubnetIds"), func(r rune) bool {
			return r == ',' || r == ' '
		}),
		MaxWorkers: number("MaxWorkers"), MinWorkers: number("MinWorkers"), UsersPerWorker: number("UsersPerWorker"),
		StartupLead: time.Duration(number("StartupLeadTime")) * time.Second,
		Timeout:     time.Duration(number("LambdaTimeout")) * time.Second,
		Memory:      number("LambdaMemory"), CapacityProvider: text("CapacityProvider"),
		SSMEndpoints:       text("CreateSsmEndpoint") == "true",
		NoDynamoDBEndpoint: text("CreateDynamoDBEndpoint") == "false",
	}

	// Zero stands for the default, so a stack without a lead time has a
	// negative one.
	if s.StartupLead == 0 {
		s.StartupLead = -1
	}
	return s
}
