//go:build unix

package wire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// stubVariable makes the test binary a server, so that the CPU time of the
// benchmark is the client's alone.
const stubVariable = "ZAEL_WIRE_STUB"

func TestMain(m *testing.M) {
	if os.Getenv(stubVariable) == "" {
		os.Exit(m.Run())
	}
	if err := serveStub(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveStub prints its URL, and answers every update with the same bucket until
// its input ends.
func serveStub() error {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	bucket := benchReply()
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.Header().Set("Content-Length", strconv.Itoa(len(bucket)))
			_, _ = io.WriteString(w, bucket)
		}),
	}
	go func() { _ = server.Serve(listener) }() // until the process ends
	fmt.Println("http://" + listener.Addr().String())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// benchReply returns the reply to the update of a bucket with two limits.
func benchReply() string {
	var attributes []string
	for _, name := range []string{"PK", "SK", "GSI2PK", "GSI2SK", "GSI4PK", "GSI4SK", "entity_id", "resource"} {
		attributes = append(attributes, fmt.Sprintf("%q:{%q:%q}", name, "S", "Zb3xQ9/ENTITY#loner"))
	}
	for _, name := range []string{
		"rf", "ttl", "b_rpm_tk", "b_rpm_cp", "b_rpm_ra", "b_rpm_rp", "b_rpm_tc", "b_tpm_tk", "b_tpm_cp",
		"b_tpm_ra", "b_tpm_rp", "b_tpm_tc",
	} {
		attributes = append(attributes, fmt.Sprintf("%q:{%q:%q}", name, "N", "500000000000"))
	}
	return `{"Attributes":{` + strings.Join(attributes, ",") + `,"cascade":{"BOOL":false}}}`
}

// benchUpdate returns the plain write of a charge of two limits.
func benchUpdate() *dynamodb.UpdateItemInput {
	names, values := map[string]string{}, map[string]types.AttributeValue{}
	for i, name := range []string{
		"rf", "b_rpm_tk", "b_rpm_tc", "b_rpm_cp", "b_rpm_ra", "b_rpm_rp", "b_tpm_tk", "b_tpm_tc", "b_tpm_cp",
		"b_tpm_ra", "b_tpm_rp", "ttl",
	} {
		names["#"+strconv.Itoa(i)] = name
	}
	for i := range 15 {
		values[":"+strconv.Itoa(i)] = number(strconv.Itoa(500_000_000_000 + i))
	}
	return &dynamodb.UpdateItemInput{
		TableName: aws.String("bench"),
		Key: map[string]types.AttributeValue{
			"PK": text("Zb3xQ9/ENTITY#loner"), "SK": text("#BUCKET#gpt-4"),
		},
		UpdateExpression: aws.String("SET #11 = :14 ADD #1 :3, #2 :2, #6 :9, #7 :8"),
		ConditionExpression: aws.String("#3 = :4 AND #4 = :5 AND #5 = :6 AND #8 = :10 AND #9 = :11 AND #10 = :12 AND " +
			"(#0 >= :0 AND #1 BETWEEN :2 AND :7 AND #6 BETWEEN :8 AND :13 OR #0 >= :1 AND #1 BETWEEN :2 AND " +
			":4 AND #6 BETWEEN :8 AND :10)"),
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// startStub starts this program as a server.
func startStub(b *testing.B) (url string) {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	stub := exec.CommandContext(b.Context(), self)
	stub.Env = append(os.Environ(), stubVariable+"=1")
	in, err := stub.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := stub.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := stub.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close() // it ends with its input
		_ = stub.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkUpdateItem sends the same update through the SDK and over the wire, in
// short slices that alternate, to a server that answers at once. It reports the
// CPU time of each, garbage collection included, and their ratio.
func BenchmarkUpdateItem(b *testing.B) {
	url := startStub(b)
	cfg := aws.Config{
		Region: "us-east-1", Credentials: aws.NewCredentialsCache(
			credentials.NewStaticCredentialsProvider("test", "test", ""),
		),
		HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost = 64
		}),
	}
	sdk := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		o.BaseEndpoint, o.Retryer, o.DisableValidateResponseChecksum = &url, aws.NopRetryer{}, true
	})
	w, ok := New(sdk, sdk.Options().HTTPClient.Do)
	if !ok {
		b.Fatal("the wire does not apply")
	}
	in := benchUpdate()
	ways := [2]func(context.Context) error{
		func(ctx context.Context) error { _, err := sdk.UpdateItem(ctx, in); return err },
		func(ctx context.Context) error { _, err := w.UpdateItem(ctx, in); return err },
	}
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var used [2]time.Duration
			const slices = 8
			for slice := range 2 * slices {
				used[slice%2] += timeSlice(b, callers, max(b.N/slices, 1), ways[slice%2])
			}
			each := float64(max(b.N/slices, 1) * callers * slices)
			b.ReportMetric(float64(used[0])/each, "sdk-cpu-ns/op")
			b.ReportMetric(float64(used[1])/each, "wire-cpu-ns/op")
			b.ReportMetric(float64(used[1])/float64(used[0]), "wire/sdk")
		})
	}
}

// timeSlice returns the CPU time of n calls by each of several callers.
func timeSlice(b *testing.B, callers, n int, call func(context.Context) error) time.Duration {
	b.Helper()
	runtime.GC() // slices must not collect each other's garbage
	before := cpuTime(b)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range n {
				if err := call(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return cpuTime(b) - before
}
