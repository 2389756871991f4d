package local

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

type composeFile struct {
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]struct {
		Name string `yaml:"name"`
	} `yaml:"volumes"`
}

type composeService struct {
	ContainerName string            `yaml:"container_name"`
	Image         string            `yaml:"image"`
	User          string            `yaml:"user"`
	Command       string            `yaml:"command"`
	Ports         []string          `yaml:"ports"`
	Environment   map[string]string `yaml:"environment"`
	Volumes       []string          `yaml:"volumes"`
	Healthcheck   struct {
		Test     string `yaml:"test"`
		Interval string `yaml:"interval"`
		Timeout  string `yaml:"timeout"`
		Retries  int    `yaml:"retries"`
	} `yaml:"healthcheck"`
	Build struct {
		Target string `yaml:"target"`
	} `yaml:"build"`
}

// arguments returns the arguments of docker create for a service.
func (s *composeService) arguments(variables ...string) []string {
	args := []string{"--name", s.ContainerName, "--publish", s.Ports[0]}
	for _, name := range variables {
		args = append(args, "--env", name+"="+s.Environment[name])
	}
	for _, volume := range s.Volumes {
		args = append(args, "--volume", volume)
	}
	if s.User != "" {
		args = append(args, "--user", s.User)
	}
	if h := s.Healthcheck; h.Test != "" {
		args = append(args, "--health-cmd", h.Test, "--health-interval", h.Interval, "--health-timeout", h.Timeout,
			"--health-retries", strconv.Itoa(h.Retries))
	}
	return append(append(args, s.Image), strings.Fields(s.Command)...)
}

func TestComposeFileHasTheSameContainers(t *testing.T) {
	text, err := os.ReadFile("../../../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file composeFile
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kind      Kind
		image     string
		variables []string
	}{
		"localstack": {LocalStack, LocalStackImage, []string{"SERVICES", "DEBUG", "DYNAMODB_REMOVE_EXPIRED_ITEMS"}},
		"dynamodb":   {DynamoDB, DynamoDBImage, nil},
	} {
		service := file.Services[name]
		want := (&Folder{}).newContainer(c.kind, c.image, c.kind.Port())
		if diff := cmp.Diff(want.arguments(), service.arguments(c.variables...)); diff != "" {
			t.Errorf("%s: code -, compose.yaml +\n%s", name, diff)
		}
		if got := len(service.Environment); got != len(c.variables) {
			t.Errorf("%s has %d variables, want %d", name, got, len(c.variables))
		}
		if got := file.Volumes[want.volume].Name; got != want.volume {
			t.Errorf("the volume %s has the name %q", want.volume, got)
		}
	}
	if got := file.Services["zae-limiter"].Build.Target; got != "cli" {
		t.Errorf("zae-limiter is built from target %q", got)
	}
	environment := file.Services["zae-limiter"].Environment
	for _, v := range Environment("http://dynamodb:"+strconv.Itoa(DynamoDB.Port()), "zae-limiter") {
		if got := environment[v.Name]; got != v.Value && !strings.HasSuffix(got, ":-"+v.Value+"}") {
			t.Errorf("%s is %q, want %q", v.Name, got, v.Value)
		}
	}
}

// No target of the Dockerfile runs as root, and Locust has a fixed version.
func TestDockerfileTargets(t *testing.T) {
	text, err := os.ReadFile("../../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	targets := strings.Split(string(text), "\nFROM ")[1:]
	users, want := map[string]bool{}, map[string]bool{
		"root": false, "build": false, "locust": true, "release": true, "cli": true,
	}
	for _, target := range targets {
		line, rest, _ := strings.Cut(target, "\n")
		users[line[strings.LastIndexByte(line, ' ')+1:]] = strings.Contains(rest, "\nUSER ")
	}
	if diff := cmp.Diff(want, users); diff != "" {
		t.Errorf("targets with a user: want -, got +\n%s", diff)
	}
	if !strings.Contains(string(text), " locust==2.47.") {
		t.Error("Locust is not fixed at 2.47")
	}
}
