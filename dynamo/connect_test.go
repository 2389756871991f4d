package dynamo_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// connectError returns the error of a Connect that must fail.
func connectError(t *testing.T, name string, opts *dynamo.Options) error {
	t.Helper()
	r, err := dynamo.Connect(t.Context(), name, opts)
	if err == nil {
		_ = r.Close()
		t.Fatal("connected")
	}
	return err
}

// checkError checks that an error text contains all parts.
func checkError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(dynamotest.Said(err), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestConnectReadsTwiceAndWritesNothing(t *testing.T) {
	t.Parallel()
	table, requests := dynamotest.NewTable(t), dynamotest.NewCounter()
	before := tableItems(t, table)
	dynamotest.Connect(t, table, &dynamo.Options{AWS: requests.Config(dynamotest.Endpoint(t))})
	if diff := cmp.Diff([]string{"BatchGetItem", "Query"}, requests.Requests()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, tableItems(t, table)); diff != "" {
		t.Error(diff)
	}
}

func TestConnectSaysHowToMakeWhatIsMissing(t *testing.T) {
	t.Parallel()
	table, opts := dynamotest.TableName(t), dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}
	err := connectError(t, table, &opts)
	if !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
	checkError(t, err, table, "us-east-1", "dynamo.CreateTable("+table+" us-east-1 http")
	must(t, dynamo.CreateTable(t.Context(), table, &opts))
	opts.Namespace = "team-a"
	err = connectError(t, table, &opts)
	if !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
	checkError(t, err, `"team-a"`, table,
		"RegisterNamespaces("+table+" team-a us-east-1 http")
}

func TestConnectTakesNamesFromTheEnvironment(t *testing.T) {
	table := dynamotest.NewTable(t)
	other := dynamotest.Connect(t, table, nil)
	space, err := other.RegisterNamespace(t.Context(), time.Now(), "team-a")
	must(t, err)
	t.Setenv("ZAEL_STACK", table)
	t.Setenv("ZAEL_NAMESPACE", "team-a")
	if got := dynamotest.Connect(t, "", nil).NamespaceID(); got != space.ID {
		t.Errorf("namespace %s, want %s", got, space.ID)
	}
	if got := dynamotest.Connect(
		t, "", &dynamo.Options{Namespace: "default"},
	).NamespaceID(); got != other.NamespaceID() {
		t.Errorf("namespace %s, want %s", got, other.NamespaceID())
	}
	t.Setenv("ZAEL_STACK", "")
	t.Setenv("ZAEL_NAMESPACE", "")
	err = connectError(t, "", &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t)), Region: "eu-west-9"})
	checkError(t, err, `table "zae-limiter"`, "eu-west-9")
}

func TestConnectReadsWhatTheSDKReads(t *testing.T) {
	table := dynamotest.NewTable(t)
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_PROFILE": "", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_SESSION_TOKEN": "",
	} {
		t.Setenv(name, value)
	}
	opts := &dynamo.Options{Endpoint: dynamotest.Endpoint(t)}
	r, err := dynamo.Connect(t.Context(), table, opts)
	must(t, err)
	must(t, r.Ping(t.Context()))
	must(t, r.Close())
	for name, test := range map[string]struct{ variable, value, says string }{
		"no credentials": {"AWS_ACCESS_KEY_ID", "", "AWS_PROFILE"},
		"no region":      {"AWS_REGION", "", "AWS_REGION"},
		"no profile":     {"AWS_PROFILE", "missing", "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(test.variable, test.value)
			err := connectError(t, table, opts)
			if !isError[*limiter.UnavailableError](err) {
				t.Error(err)
			}
			checkError(t, err, test.says)
		})
	}
}

func TestConnectRefusesBadArguments(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"1st", "-a", "a_b", "a.b", "a b", "ä", "a\n", strings.Repeat("a", 56)} {
		bad, ok := errors.AsType[*limiter.InvalidError](connectError(t, name, nil))
		if !ok || bad.Field != "name" {
			t.Errorf("%q: %v", name, bad)
		}
	}
	if err := connectError(t, "fine", &dynamo.Options{Images: -1}); !isError[*limiter.InvalidError](err) {
		t.Error(err)
	}
}

func TestConnectRefusesTablesOfOthers(t *testing.T) {
	t.Parallel()
	err := connectError(t, foreignTable(t, "id"), &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))})
	if !isError[*limiter.VersionError](err) {
		t.Error(err)
	}
	checkError(t, err, "no table of zae-limiter")
}

func TestConnectChecksTheVersionRecord(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	opts := &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}
	for _, test := range []struct {
		schema, least, lambda string
		refused               string // what the error says
	}{
		{"S:0.8.0", "S:0.0.0", "NULL", ""},
		{"S:0.8.0", "S:0.10.0", "S:0.1.0", ""},
		{"S:0.8.7", "S:", "S:nonsense", ""},
		{"S:0.7.0", "S:0.0.0", "NULL", ""},
		{"S:0.8.0", "S:nonsense", "NULL", ""},
		{"S:0.8.0", "S:0.10.1", "NULL", "0.10.1"},
		{"S:0.8.0", "S:1.0.0", "NULL", "upgrade"},
		{"S:0.9.0", "S:0.0.0", "NULL", "newer"},
		{"S:0.9.0.dev3", "S:0.0.0", "NULL", "newer"},
		{"S:0.11.0", "S:0.0.0", "NULL", "newer"},
		{"S:1.0.0", "S:0.0.0", "NULL", "newer"},
		{"S:", "S:0.0.0", "NULL", "1.0.0"},
		{"S:0.8", "S:0.0.0", "NULL", "no version"},
	} {
		storeItem(t, table, attributes{
			"PK": "S:_/SYSTEM#", "SK": "S:#VERSION",
			"schema_version": test.schema, "client_min_version": test.least, "lambda_version": test.lambda,
		})
		r, err := dynamo.Connect(t.Context(), table, opts)
		if test.refused == "" {
			if err != nil {
				t.Errorf("%v: %v", test, err)
			} else {
				must(t, r.Close())
			}
			continue
		}
		if !isError[*limiter.VersionError](err) {
			t.Errorf("%v: %v", test, err)
			continue
		}
		checkError(t, err, test.refused)
	}
	deleteRecord(t, table, "#VERSION")
	dynamotest.Connect(t, table, opts)
}

func TestConnectSaysWhatToDoAboutAWS(t *testing.T) {
	t.Parallel()
	table, url := dynamotest.TableName(t), dynamotest.Endpoint(t)
	answering := func(status int, kind string) *dynamo.Options {
		denial := dynamotest.Fault{Name: "denied", Act: func(x *dynamotest.Exchange) {
			x.Answer(dynamotest.Failure(status, kind, `"message":"no"`))
		}}
		return &dynamo.Options{AWS: dynamotest.Config(dynamotest.NewProxy(t, dynamotest.Always(denial)).URL)}
	}
	for name, test := range map[string]struct {
		opts *dynamo.Options
		says string
	}{
		"no region": {&dynamo.Options{AWS: &aws.Config{}, Endpoint: url}, "AWS_REGION"},
		"unreachable": {
			&dynamo.Options{AWS: withoutRetries(dynamotest.Config("http://127.0.0.1:1"))}, "check the network",
		},
		"denied":      {answering(http.StatusBadRequest, "AccessDeniedException"), "policy"},
		"expired":     {answering(http.StatusBadRequest, "ExpiredTokenException"), "sign in again"},
		"unknown key": {answering(http.StatusBadRequest, "UnrecognizedClientException"), "keys"},
	} {
		err := connectError(t, table, test.opts)
		if bad, ok := errors.AsType[*limiter.UnavailableError](err); !ok || bad.Op != "connect" {
			t.Errorf("%s: %v", name, err)
		}
		checkError(t, err, test.says)
	}
}

// withoutRetries returns the config without retries.
func withoutRetries(cfg *aws.Config) *aws.Config {
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	return cfg
}

func TestConnectDistinguishesCancellationFromTimeout(t *testing.T) {
	t.Parallel()
	opts := &dynamo.Options{AWS: dynamotest.Config(dynamotest.NewProxy(t, dynamotest.Always(dynamotest.Hang)).URL)}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := dynamo.Connect(ctx, "table", opts)
	if !isError[*limiter.UnavailableError](err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	stop := dynamotest.Fault{Name: "cancel", Act: func(x *dynamotest.Exchange) { cancel(); dynamotest.Hang.Act(x) }}
	opts.AWS = dynamotest.Config(dynamotest.NewProxy(t, dynamotest.Always(stop)).URL)
	//nolint:errorlint // its own error, not one around it
	if _, err := dynamo.Connect(ctx, "table", opts); err != context.Canceled {
		t.Error(err)
	}
	if _, err := dynamo.Connect(ctx, "table", opts); err != context.Canceled { //nolint:errorlint // as above
		t.Error(err)
	}
}

func TestConnectPrefersRegionAndEndpointOfTheOptions(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	cfg := dynamotest.Config("http://127.0.0.1:1")
	cfg.Region = "eu-west-9"
	before := cfg.Copy()
	dynamotest.Connect(t, table, &dynamo.Options{AWS: cfg, Region: "us-east-1", Endpoint: dynamotest.Endpoint(t)})
	if cfg.Region != before.Region || *cfg.BaseEndpoint != *before.BaseEndpoint {
		t.Error("the caller's config was changed")
	}
}
