package cli_test

import (
	"context"
	"crypto/rand"
	"encoding/xml"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/clitest"
)

const stackScripts = "testdata/script/stack" // run on an emulator of AWS

// TestStackScripts runs the commands about stacks on moto's server, with a
// statically linked program.
func TestStackScripts(t *testing.T) {
	url := clitest.Moto.URL(t)
	vpc, subnets := emulatedNetwork(t, url)
	settings := append(emulated(url), "RELEASED="+releasedProgram(t), "ARCH="+hostArchitecture(), "VPC="+vpc,
		"SUBNETS="+subnets)
	testscript.Run(t, params(stackScripts, "none", func(env *testscript.Env) error {
		for _, setting := range settings {
			name, value, _ := strings.Cut(setting, "=")
			env.Setenv(name, value)
		}
		env.Setenv("STACK", "cli-"+strings.ToLower(rand.Text())[:12])
		env.Setenv("PORT", url[strings.LastIndexByte(url, ':')+1:])
		return addFakeDocker(env)
	}))
}

// emulated returns the environment of a program that uses the emulator as AWS.
func emulated(url string) []string {
	return []string{
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION=us-east-1",
		"AWS_ENDPOINT_URL=" + url,
	}
}

func hostArchitecture() string {
	return map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
}

// releasedProgram returns the path of this program beside its functions', linked
// statically. The first test that asks builds them.
func releasedProgram(t *testing.T) string {
	t.Helper()
	if err := buildReleased(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(releasedFolder, "zae-limiter")
}

// releasedFolder holds the programs of releasedProgram until the tests end.
var releasedFolder string

var buildReleased = sync.OnceValue(func() error {
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o",
		releasedFolder, "../../../cmd/zae-limiter", "../../../cmd/zae-limiter-function")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
})

// emulatedNetwork returns the VPC that the emulator has from the start, and two of
// its subnets, separated by a comma.
func emulatedNetwork(t *testing.T, url string) (vpc, subnets string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
		strings.NewReader("Action=DescribeSubnets"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization",
		"AWS4-HMAC-SHA256 Credential=test/20260504/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var found struct {
		Subnets []string `xml:"subnetSet>item>subnetId"`
		VPCs    []string `xml:"subnetSet>item>vpcId"`
	}
	if err := xml.NewDecoder(response.Body).Decode(&found); err != nil || len(found.Subnets) < 2 {
		t.Fatalf("%v, %v", found, err)
	}
	return found.VPCs[0], found.Subnets[0] + "," + found.Subnets[1]
}
