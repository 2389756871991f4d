package infra_test

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

const (
	testVPC = "vpc-0123456789abcdef0"
	subnetA = "subnet-0123456789abcdefa"
	subnetB = "subnet-0123456789abcdefb"
)

// loadWorld is a cloud with a stack to test, a network and a fake docker.
type loadWorld struct {
	*cloud
	name string
	bin  string // folder with the fake docker
}

// newLoadWorld returns a world whose stack is there without a table. It replaces
// PATH, so its tests run one after the other.
func newLoadWorld(t *testing.T) *loadWorld {
	t.Helper()
	w := &loadWorld{&cloud{fakeaws.New(t, ""), t}, stackName(), t.TempDir()}
	target := w.AddStack(w.name, "CREATE_COMPLETE", managedTags(w.name))
	target.Outputs = map[string]string{"AcquireOnlyPolicyArn": "arn:acq", "FullAccessPolicyArn": "arn:full"}
	w.Network = fakeaws.Network{
		Subnets: map[string]string{subnetA: testVPC, subnetB: testVPC},
		RouteTables: []fakeaws.RouteTable{
			{ID: "rtb-0a", VPC: testVPC, Main: true},
			{ID: "rtb-0b", VPC: testVPC, Subnets: []string{subnetB}},
			{ID: "rtb-0c", VPC: "vpc-2", Main: true},
		},
	}
	w.installDocker(t)
	return w
}

// fakeDocker records its arguments and the settings of a push, fails at the command in the file
// fail, and keeps a list of the images that it has.
const fakeDocker = `#!/bin/sh
cd "${0%/*}" || exit 9
echo "$*" >>log
case $1 in
push) rm -rf login; cp -R "$DOCKER_CONFIG" login; echo "$DOCKER_CONFIG" >folder ;;
build) for folder; do :; done; cp -R "$folder"/. context; echo "$5" >>images ;;
tag) echo "$3" >>images ;;
image) : >images ;;
esac
if [ -f fail ] && read -r at <fail && [ "$at" = "$1" ]; then
	echo "first line"
	echo "docker says why" >&2
	exit 1
fi
`

func (w *loadWorld) installDocker(t *testing.T) {
	t.Helper()
	must(t, os.Mkdir(filepath.Join(w.bin, "context"), 0o700))
	must(t, os.WriteFile(filepath.Join(w.bin, "docker"), []byte(fakeDocker), 0o700)) //nolint:gosec // it is a program
	t.Setenv("PATH", w.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// recorded returns a file of the fake docker, or "".
func (w *loadWorld) recorded(name string) string {
	content, err := os.ReadFile(filepath.Join(w.bin, name))
	if err != nil {
		return ""
	}
	return string(content)
}

// options returns options for the world's stack.
func (w *loadWorld) loadOptions() *infra.LoadOptions {
	o := &infra.LoadOptions{
		Options: w.options(), Load: infra.LoadStack{VPC: testVPC, Subnets: []string{subnetA, subnetB}},
		Program: fakeaws.Program(w.tb, elf.EM_X86_64), Locust: "2.47.0",
	}
	o.Options.Zip = ""
	return o
}

// deploy deploys the load stack.
func (w *loadWorld) deploy(t *testing.T, opts *infra.LoadOptions) infra.LoadDeployment {
	t.Helper()
	d, err := infra.DeployLoad(t.Context(), w.name, opts)
	must(t, err)
	return d
}

// stack returns the load stack.
func (w *loadWorld) stack() *fakeaws.Stack { return w.Find(infra.LoadName(w.name)) }

// checkClean checks that docker has no image and no login of ours.
func (w *loadWorld) checkClean(t *testing.T) {
	t.Helper()
	if left := w.recorded("images"); left != "" {
		t.Errorf("docker still has %s", left)
	}
	if folder := strings.TrimSpace(w.recorded("folder")); folder != "" {
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("folder %s with a login is left: %v", folder, err)
		}
	}
}

// unzipped returns the files of a zip.
func unzipped(t *testing.T, content []byte) map[string]*zip.File {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	must(t, err)
	files := map[string]*zip.File{}
	for _, f := range r.File {
		files[f.Name] = f
	}
	return files
}

// repository returns the name of the image without its tag.
func (w *loadWorld) repository() string {
	return fmt.Sprintf("%s/%s-locust", fakeaws.Registry, infra.LoadName(w.name))
}
