package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// choose returns the engine to start: as the settings say, else the
// first that can run.
func (f *Folder) choose(ctx context.Context, s *Settings) (starter, error) {
	// Only Java runs a jar, so Docker need not answer.
	if s.Jar != "" {
		return f.chooseJava(ctx, s, nil)
	}

	unreachable := docker{host: s.DockerHost}.reach(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case unreachable == nil && s.Kind == DynamoDB:
		c := f.newContainer(DynamoDB, cmp.Or(s.Image, DynamoDBImage), cmp.Or(s.Port, DynamoDB.Port()))
		return &c, nil
	case unreachable == nil:
		c := f.newContainer(LocalStack, cmp.Or(s.Image, LocalStackImage), cmp.Or(s.Port, LocalStack.Port()))
		return &c, nil
	case s.Kind == LocalStack:
		return nil, fmt.Errorf("LocalStack needs Docker: %w; install and start Docker, or use --engine dynamodb",
			unreachable)
	case s.Image != "" || s.DockerHost != "":
		return nil, fmt.Errorf("--image and --docker-host need Docker: %w; install and start Docker, or leave them out",
			unreachable)
	}

	return f.chooseJava(ctx, s, unreachable)
}

// chooseJava returns DynamoDB Local as a Java process. The error, if not nil, says
// why Docker cannot run it.
func (f *Folder) chooseJava(ctx context.Context, s *Settings, unreachable error) (starter, error) {
	java, err := findJava()
	// A jar of the user needs no Maven.
	if err == nil && s.Jar == "" {
		err = canFetch()
	}

	switch {
	case err != nil && s.Jar != "":
		return nil, fmt.Errorf("--jar needs Java: %w; install Java 17 or newer", err)
	case errors.Is(err, errNoMaven):
		return nil, fmt.Errorf("no engine can run here: %w, and Java is, but %w, which fetches DynamoDB "+
			"Local; install and start Docker, or install Maven, or download DynamoDB Local and give its jar with --jar",
			unreachable, err)
	case err != nil:
		return nil, fmt.Errorf(
			"no engine can run here: %w, and %w; install and start Docker, or install a JDK (17 or newer) and Maven",
			unreachable, err,
		)
	case unreachable != nil:
		s.say("using DynamoDB Local with Java, since " + unreachable.Error())
	}

	j := &javaEngine{folder: f, java: java, jar: s.Jar, port: cmp.Or(s.Port, DynamoDB.Port())}
	j.works, j.compiles = probeJava(ctx, java)
	return j, nil
}
