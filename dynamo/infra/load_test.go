package infra_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

func TestDeployLoadCreatesAStack(t *testing.T) {
	w := newLoadWorld(t)
	target := w.Find(w.name)
	target.Outputs["PermissionBoundaryArn"], target.Outputs["RoleNameFormat"] = "arn:aws:iam::123456789012:policy/edge", "our-{}"
	target.Parameters = map[string]string{"AlarmSNSTopicArn": "arn:aws:sns:eu-west-1:123456789012:alarms"}
	opts := w.loadOptions()
	opts.Options.Stack.Tags = map[string]string{"team": "a"}
	var steps []string
	opts.Step = func(text string) func(error) {
		return func(err error) { steps = append(steps, fmt.Sprint(text, " ", err)) }
	}
	d := w.deploy(t, opts)
	load := infra.LoadName(w.name)
	if d.Action != "created" || d.Name != load || d.Target != w.name || !d.Complete || !d.Pushed || !d.Code.Uploaded {
		t.Errorf("%+v", d)
	}
	repository, tag, _ := strings.Cut(d.Image, ":")
	if repository != w.repository() || len(tag) != 32 {
		t.Errorf("image %s", d.Image)
	}
	s := w.stack()
	want := map[string]string{
		"TargetStackName": w.name, "VpcId": testVPC, "PrivateSubnetIds": subnetA + "," + subnetB,
		"PrivateRouteTableIds": "rtb-0a,rtb-0b",
		"CodeBucket":           artifactBucketOf(load), "CodeKey": d.Code.Key, "ImageTag": tag,
		"CreateSsmEndpoint": "false", "CreateDynamoDBEndpoint": "true",
		"MaxWorkers": "100", "MinWorkers": "1", "UsersPerWorker": "10", "StartupLeadTime": "20",
		"LambdaTimeout": "300", "LambdaMemory": "1769",
		"CapacityProvider": "FARGATE_SPOT", "AlarmSNSTopicArn": "arn:aws:sns:eu-west-1:123456789012:alarms",
		"PermissionBoundary": "arn:aws:iam::123456789012:policy/edge", "RoleNameFormat": "our-{}",
	}
	if diff := cmp.Diff(want, s.Parameters); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	tags := map[string]string{
		"team": "a", "ManagedBy": "zae-limiter", "zae-limiter:name": w.name, "zae-limiter:type": "load-test",
		"zae-limiter:version": "1.2.3", "zae-limiter:lambda-version": "1.2.3",
	}
	if diff := cmp.Diff(tags, s.Tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(
		[]string{
			"building the image with docker <nil>", "uploading the function's code <nil>",
			"pushing the image to " + repository + " <nil>",
		},
		steps,
	); diff != "" {
		t.Error(diff)
	}
	w.checkClean(t)
}

// TestDockerIsCalledLikeThis compares all calls of docker. The password is on
// standard input only.
func TestDockerIsCalledLikeThis(t *testing.T) {
	w := newLoadWorld(t)
	d := w.deploy(t, w.loadOptions())
	log := strings.Split(strings.TrimSpace(w.recorded("log")), "\n")
	if len(log) != 7 {
		t.Fatal(log)
	}
	local, folder := "", ""
	if _, err := fmt.Sscanf(log[1], "build --platform linux/amd64 --tag %s %s", &local, &folder); err != nil {
		t.Fatalf("%v: %s", err, log[1])
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder %s is left: %v", folder, err)
	}
	latest := w.repository() + ":latest"
	want := []string{
		"version --format {{.Server.Version}}", log[1],
		"tag " + local + " " + d.Image, "push " + d.Image, "tag " + local + " " + latest, "push " + latest,
		"image rm --force " + local + " " + d.Image + " " + latest,
	}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(w.recorded("log"), fakeaws.RegistryPassword) {
		t.Error("the password is an argument")
	}
}

// A push has the context of the user, and a login of its own: that of the user
// stays, and no credential helper sees ours.
func TestPushKeepsTheLoginsOfTheUser(t *testing.T) {
	w := newLoadWorld(t)
	home := t.TempDir()
	t.Setenv("DOCKER_CONFIG", home)
	mine := `{"auths":{"` + fakeaws.Registry + `":{"auth":"bWluZQ=="}},"credsStore":"desktop","credHelpers":{"` +
		fakeaws.Registry + `":"ecr-login"},"currentContext":"colima","proxies":{}}`
	must(t, os.WriteFile(filepath.Join(home, "config.json"), []byte(mine), 0o600))
	must(t, os.MkdirAll(filepath.Join(home, "contexts", "meta"), 0o700))
	must(t, os.WriteFile(filepath.Join(home, "contexts", "meta", "colima"), []byte("unix:///colima.sock"), 0o600))
	w.deploy(t, w.loadOptions())
	want := fmt.Sprintf(`{"auths":{%q:{"auth":%q}},"currentContext":"colima","proxies":{}}`, fakeaws.Registry,
		base64.StdEncoding.EncodeToString([]byte("AWS:"+fakeaws.RegistryPassword)))
	if diff := cmp.Diff(want, w.recorded("login/config.json")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if w.recorded("login/contexts/meta/colima") != "unix:///colima.sock" {
		t.Error("the push has another context than the build")
	}
	if now, err := os.ReadFile(filepath.Join(home, "config.json")); err != nil || string(now) != mine {
		t.Errorf("the settings of the user are %s, %v", now, err)
	}
	w.checkClean(t)
}

// Image and function hold the program and the user's files, but no hidden ones.
func TestLoadContent(t *testing.T) {
	w := newLoadWorld(t)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"own.yaml": "name: own", "more/deep.py": "pass", "requirements.txt": "numpy", ".env": "SECRET=1",
		".git/config": "x",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(content), 0o600))
	}
	opts := w.loadOptions()
	first := w.deploy(t, opts)
	opts.Dir = dir
	d := w.deploy(t, opts)
	if d.Image == first.Image || d.Code.Key == first.Code.Key || d.Action != "updated" || !d.Pushed {
		t.Errorf("%+v", d)
	}
	zipped := w.Buckets[d.Code.Bucket].Objects[d.Code.Key]
	want := []string{"bootstrap", "scenarios/more/deep.py", "scenarios/own.yaml", "scenarios/requirements.txt"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(unzipped(t, zipped)))); diff != "" {
		t.Errorf("zip (-want +got):\n%s", diff)
	}
	dockerfile := w.recorded("context/Dockerfile")
	for _, line := range []string{
		"FROM python:", "locust==2.47.0 -r /tmp/requirements.txt", "COPY scenarios/ /scenarios/", "USER locust",
	} {
		if !strings.Contains(dockerfile, line) {
			t.Errorf("%s has no %q", dockerfile, line)
		}
	}
	if w.recorded("context/scenarios/own.yaml") != "name: own" || w.recorded("context/scenarios/.env") != "" {
		t.Error("the image has other files")
	}
}

// A push changes the code and nothing else.
func TestPushLoad(t *testing.T) {
	w := newLoadWorld(t)
	opts := w.loadOptions()
	_, err := infra.PushLoad(t.Context(), w.name, opts)
	if !errors.Is(err, limiter.ErrNotFound) || !strings.Contains(
		dynamotest.Said(err), "infra.DeployLoad("+w.name+" ",
	) {
		t.Fatal(err)
	}
	opts.Load.MaxWorkers = 7
	w.deploy(t, opts)
	before := maps.Clone(w.stack().Parameters)
	opts.Program, opts.Load = fakeaws.Program(t, 62, 1), infra.LoadStack{}
	d, err := infra.PushLoad(t.Context(), w.name, opts)
	must(t, err)
	if d.Action != "updated" || !d.Pushed || !d.Complete {
		t.Errorf("%+v", d)
	}
	after := w.stack().Parameters
	for _, key := range []string{"CodeKey", "ImageTag"} {
		if before[key] == after[key] {
			t.Errorf("%s stays %s", key, after[key])
		}
		delete(before, key)
		delete(after, key)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	w.checkClean(t)
}

// Deploy builds no image that the repository has.
func TestDeployLoadTwice(t *testing.T) {
	w := newLoadWorld(t)
	opts := w.loadOptions()
	first := w.deploy(t, opts)
	_, tag, _ := strings.Cut(first.Image, ":")
	w.Images[infra.LoadName(w.name)+"-locust"] = []string{tag, "latest"}
	must(t, os.Remove(filepath.Join(w.bin, "log")))
	d := w.deploy(t, opts)
	if d.Action != "unchanged" || d.Pushed || d.Image != first.Image || d.Code.Uploaded || w.recorded("log") != "" {
		t.Errorf("%+v, docker %s", d, w.recorded("log"))
	}
}

// The endpoint of the stack itself is no reason to remove it.
func TestDynamoDBEndpoint(t *testing.T) {
	other := fakeaws.Endpoint{
		ID: "vpce-2", VPC: testVPC, Service: "com.amazonaws.eu-west-1.dynamodb", State: "available",
	}
	for name, test := range map[string]struct {
		endpoint fakeaws.Endpoint
		unwanted bool
		want     string
	}{
		"none":         {want: "rtb-0a,rtb-0b"},
		"unwanted":     {unwanted: true},
		"there is one": {endpoint: other},
		"one is being made": {
			endpoint: fakeaws.Endpoint{ID: "vpce-2", VPC: testVPC, Service: other.Service, State: "pending"},
			want:     "rtb-0a,rtb-0b",
		},
		"one in another VPC": {
			endpoint: fakeaws.Endpoint{ID: "vpce-2", VPC: "vpc-2", Service: other.Service, State: "available"},
			want:     "rtb-0a,rtb-0b",
		},
		"one of another kind": {
			endpoint: fakeaws.Endpoint{
				ID: "vpce-2", VPC: testVPC, Service: "com.amazonaws.eu-west-1.s3", State: "available",
			},
			want: "rtb-0a,rtb-0b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLoadWorld(t)
			if test.endpoint.ID != "" {
				w.Network.Endpoints = append(w.Network.Endpoints, test.endpoint)
			}
			opts := w.loadOptions()
			opts.Load.NoDynamoDBEndpoint = test.unwanted
			for range 2 {
				w.deploy(t, opts)
				if got := w.stack().Parameters["PrivateRouteTableIds"]; got != test.want {
					t.Errorf("%q, want %q", got, test.want)
				}
			}
		})
	}
}

// Settings survive a round trip through the deployed stack.
func TestLoadResolve(t *testing.T) {
	w := newLoadWorld(t)
	opts := w.loadOptions()
	opts.Load = infra.LoadStack{
		VPC: testVPC, Subnets: []string{subnetB, subnetA}, MaxWorkers: 20, MinWorkers: 2, UsersPerWorker: 3,
		StartupLead: -1, Timeout: 2 * time.Minute,
		Memory: 512, CapacityProvider: infra.Fargate, SSMEndpoints: true, NoDynamoDBEndpoint: true,
	}
	want := opts.Load
	w.deploy(t, opts)
	var deployed []*infra.LoadStack
	opts.Resolve = func(before *infra.LoadStack) (infra.LoadStack, error) {
		deployed = append(deployed, before)
		return *before, nil
	}
	if d := w.deploy(t, opts); d.Action != "unchanged" {
		t.Errorf("%+v", d)
	}
	if diff := cmp.Diff([]*infra.LoadStack{&want}, deployed); diff != "" {
		t.Error(diff)
	}
	no := errors.New("no")
	opts.Resolve = func(*infra.LoadStack) (infra.LoadStack, error) { return infra.LoadStack{}, no }
	if _, err := infra.DeployLoad(t.Context(), w.name, opts); !errors.Is(err, no) {
		t.Error(err)
	}
}

func TestListLoads(t *testing.T) {
	w := newLoadWorld(t)
	w.deploy(t, w.loadOptions())
	w.AddStack("other", "CREATE_COMPLETE", map[string]string{"zae-limiter:type": "load-test"})
	w.AddStack("gone-load", "DELETE_COMPLETE", w.stack().Tags)
	opts := w.options()
	found, err := infra.ListLoads(t.Context(), &opts)
	must(t, err)
	want := []infra.LoadSummary{{
		Name: infra.LoadName(w.name), Target: w.name, Region: fakeaws.Region, Status: "CREATE_COMPLETE",
		Version: "1.2.3", Created: w.stack().Created,
	}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
	stacks, err := infra.List(t.Context(), &opts)
	must(t, err)
	if len(stacks) != 1 || stacks[0].Name != w.name {
		t.Errorf("%+v", stacks)
	}
}

// DeleteLoad stops all tasks, also those that no service started, and leaves nothing.
func TestDeleteLoad(t *testing.T) {
	w := newLoadWorld(t)
	w.deploy(t, w.loadOptions())
	load := infra.LoadName(w.name)
	for range 3 {
		w.AddTask(load, load+"-master")
	}
	w.AddTask(load, "something-else").Status = "PENDING"
	w.Tasks[1].Status, w.Tasks[1].Desired = "DEPROVISIONING", "STOPPED"
	w.Services[0].Desired = 1
	var asked infra.LoadRemoval
	opts := &infra.LoadDeleteOptions{Options: w.options(), Confirm: func(r infra.LoadRemoval) error {
		asked = r
		return errors.New("no")
	}}
	if _, err := infra.DeleteLoad(t.Context(), w.name, opts); err == nil || err.Error() != "no" {
		t.Fatal(err)
	}
	if asked.Tasks != 3 || asked.Name != load || w.Services[0].Desired != 1 || w.Tasks[0].Desired != "RUNNING" {
		t.Errorf("%+v", asked)
	}
	opts.Confirm = nil
	r, err := infra.DeleteLoad(t.Context(), w.name, opts)
	must(t, err)
	want := infra.LoadRemoval{
		Name: load, Target: w.name, Region: fakeaws.Region, Existed: true, Tasks: 3,
		Artifacts: artifactBucketOf(load),
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	for _, task := range w.Tasks {
		if task.Status != "STOPPED" {
			t.Errorf("task %s is %s", task.ID, task.Status)
		}
	}
	if len(w.Buckets) > 0 || len(w.Clusters) > 0 || len(w.Images) > 0 || len(w.Network.Endpoints) > 0 ||
		w.stack() != nil {
		t.Errorf("left: %v %v %v %v", w.Buckets, w.Clusters, w.Images, w.Network.Endpoints)
	}
	r, err = infra.DeleteLoad(t.Context(), w.name, opts)
	must(t, err)
	if r.Existed || r.Artifacts != "" {
		t.Errorf("%+v", r)
	}
}

// A stack outlives its load stack, which uses its policies.
func TestDeleteWaitsForTheLoadStack(t *testing.T) {
	w := newLoadWorld(t)
	w.deploy(t, w.loadOptions())
	_, err := infra.Delete(t.Context(), w.name, &infra.DeleteOptions{Options: w.options()})
	checkError[*infra.RefusedError](t, err, infra.LoadName(w.name)+" uses its policies",
		"infra.DeleteLoad("+w.name+" ")
	_, err = infra.DeleteLoad(t.Context(), w.name, &infra.LoadDeleteOptions{Options: w.options()})
	must(t, err)
	_, err = infra.Delete(t.Context(), w.name, &infra.DeleteOptions{Options: w.options()})
	must(t, err)
}

// The master prints the file of a scenario, unless the user's folder has it.
func TestMasterScript(t *testing.T) {
	w := newLoadWorld(t)
	w.deploy(t, w.loadOptions())
	scenarios, temporary := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(scenarios, "own.py"), nil, 0o600))
	printed := filepath.Join(temporary, "locustfile.py")
	for name, script := range map[string]string{
		"locust": `echo "$LOCUST_USER_CLASSES|$*"`, "zae-limiter": `echo "$*"`,
	} {
		//nolint:gosec // it is a program
		must(t, os.WriteFile(filepath.Join(w.bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	const locust = "--master --master-bind-host * --master-bind-port 5557 --web-host 0.0.0.0 --web-port 8089 " +
		"--class-picker --enable-rebalancing -f "
	for _, test := range []struct{ scenario, classes, file, print, want string }{
		{"", "", printed, "simple", ""},
		{"max_rps", "MaxRpsUser,MaxRpsCascadeUser", printed, "max_rps", "MaxRpsUser MaxRpsCascadeUser"},
		{"locustfiles/max_rps.py", "A", printed, "locustfiles/max_rps.py", "A"},
		{"own.py", "", filepath.Join(scenarios, "own.py"), "", ""},
	} {
		must(t, os.WriteFile(printed, nil, 0o600))
		cmd := exec.CommandContext(t.Context(), "/bin/sh", filepath.Join(w.bin, "context", "locust-master"))
		cmd.Env = append(os.Environ(), "TMPDIR="+temporary, infra.ScenarioVariable+"="+scenarios,
			"LOCUSTFILE="+test.scenario, "LOCUST_USER_CLASSES="+test.classes)
		out, err := cmd.CombinedOutput()
		if want := test.want + "|" + locust + test.file + "\n"; err != nil || string(out) != want {
			t.Errorf("%s: %v, %q, want %q", test.scenario, err, out, want)
		}
		content, err := os.ReadFile(printed)
		must(t, err)
		if want := "loadtest locustfile " + test.print + " -C " + scenarios + "\n"; test.print != "" &&
			string(content) != want || test.print == "" && len(content) > 0 {
			t.Errorf("%s: printed %q, want %q", test.scenario, content, want)
		}
	}
}
