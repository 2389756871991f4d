package local

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// loopbackOnly is a Java program that starts DynamoDB Local on the loopback
// address. DynamoDB Local has no setting for that.
//
//go:embed LoopbackOnly.java
var loopbackOnly []byte

const (
	loopback     = "127.0.0.1"
	loopbackFile = "LoopbackOnly.java"
	mainClass    = "software.amazon.dynamodb.services.local.main.ServerRunner"
	startTimeout = 2 * time.Minute
	shownLines   = 10 // of the log of an engine that failed
)

// errNoJava reports that there is no Java to run.
var errNoJava = errors.New("java is not installed")

// findJava returns the path of java: in JAVA_HOME if that is set, else in PATH.
func findJava() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		if path, err := exec.LookPath(filepath.Join(home, "bin", "java")); err == nil {
			return path, nil
		}
	}

	path, err := exec.LookPath("java")
	if err != nil {
		return "", errNoJava
	}
	return path, nil
}

// probeJava reports whether java works, and whether it can compile.
func probeJava(ctx context.Context, java string) (works, compiles bool) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, java, "--list-modules")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	// A JDK has the module of the compiler, and a runtime alone does not.
	return err == nil, err == nil && strings.Contains("\n"+string(out), "\njdk.compiler")
}

// javaEngine is DynamoDB Local as a Java process.
type javaEngine struct {
	folder    *Folder
	java, jar string // jar is "" for the jars that Maven fetches
	port      int
	works     bool // java answers as Java 9 or newer does
	compiles  bool // java is a JDK
}

func (j *javaEngine) start(ctx context.Context, s *Settings) (*Engine, error) {
	if inUse(ctx, j.port) {
		return nil, &StartError{Kind: DynamoDB, Reason: portInUse(j.port)}
	}

	path, program, err := j.classPath(ctx, s)
	if err != nil {
		return nil, err
	}

	for _, name := range []string{"data", "tmp"} {
		if err := os.MkdirAll(j.folder.at(j.port, name), private); err != nil {
			return nil, j.folder.explain(err)
		}
	}

	args, err := j.arguments(path)
	if err != nil {
		return nil, err
	}

	if j.works && !j.compiles {
		s.warn(
			"this Java has no compiler, so DynamoDB Local listens on all network interfaces; a JDK keeps it " +
				"on this machine",
		)
	}

	log := j.folder.at(j.port, "engine.log")
	d, err := j.folder.startDaemon(j.command(ctx, args), log)
	if err != nil {
		return nil, err
	}

	e := &Engine{
		Kind: DynamoDB, Port: j.port, Started: time.Now().UTC(), Process: &d.Process, Program: program, Log: log,
		Data: j.folder.at(j.port, "data"),
	}

	stop := s.progress("starting DynamoDB Local")
	defer stop()
	// The record comes first, so that a killed program leaves no unknown engine.
	err = j.folder.replace(ctx, e)
	if err == nil {
		err = j.wait(ctx, d, log)
	}

	if err != nil {
		return nil, errors.Join(err, j.folder.abandon(ctx, e))
	}
	return e, nil
}

func (j *javaEngine) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), j.java, args...)
	cmd.Dir = j.folder.at(j.port)
	return cmd
}

// classPath returns where Java finds DynamoDB Local, and the program for messages.
// It fetches DynamoDB Local if needed.
func (j *javaEngine) classPath(ctx context.Context, s *Settings) (path, program string, err error) {
	if j.jar == "" {
		folder, err := fetch(ctx, s)
		return filepath.Join(folder, "*"), "java, DynamoDB Local " + dynamoDBVersion, err
	}
	libraries := filepath.Join(filepath.Dir(j.jar), "DynamoDBLocal_lib")
	// Maven stores a jar beside the jars that it needs.
	if _, err := os.Stat(libraries); err != nil {
		libraries = filepath.Dir(j.jar)
	}
	return j.jar + string(os.PathListSeparator) + filepath.Join(libraries, "*"), "java, " + j.jar, nil
}

// arguments returns the arguments of java. The C1 compiler and the serial
// collector start three times as fast, and need less memory.
func (j *javaEngine) arguments(path string) ([]string, error) {
	entry := mainClass
	// Java compiles a source file before it runs it, which only a JDK can do.
	if j.compiles {
		entry = j.folder.at(j.port, loopbackFile)
		if err := j.folder.write(entry, loopbackOnly); err != nil {
			return nil, j.folder.explain(err)
		}
	}

	return []string{
		"-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.io.tmpdir=" + j.folder.at(j.port, "tmp"),
		"-cp", path, entry,
		"-sharedDb", "-dbPath", j.folder.at(j.port, "data"), "-disableTelemetry", "-port", strconv.Itoa(j.port),
	}, nil
}

// wait waits until the engine answers. It fails if the process ends before.
func (j *javaEngine) wait(ctx context.Context, d *daemon, log string) error {
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()

	tick := time.NewTicker(poll)
	defer tick.Stop()

	for {
		select {
		case err := <-d.exited:
			return j.explain(err, log)
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &StartError{
				DynamoDB, fmt.Sprintf("it does not answer after %v", startTimeout), tail(log, shownLines),
			}
		case <-tick.C:
			// Another program may have taken the port meanwhile and answer in
			// its place.
			if answers(limited, j.port) && d.Alive() {
				return nil
			}
		}
	}
}

// explain returns the error of an engine that ended while it started.
func (j *javaEngine) explain(err error, log string) error {
	// Without the log, the reason is only less exact.
	text, _ := os.ReadFile(log)

	reason := "it ended at once"
	if err != nil {
		reason = "it ended (" + err.Error() + ")"
	}

	switch all := strings.ToLower(string(text)); {
	case strings.Contains(all, "address already in use"):
		reason = portInUse(j.port)
	case strings.Contains(all, "unsupportedclassversionerror"):
		reason = "this Java is too old; install Java 17 or newer"
	case mentionsFullDisk(all):
		reason += "; the disk is full"
	case !j.works:
		reason += "; " + j.java + " must be Java 17 or newer"
	case j.jar != "":
		reason += "; " + j.jar + " must be the jar of DynamoDB Local 2.3 or newer, with DynamoDBLocal_lib or " +
			"its other jars beside it"
	}

	return &StartError{DynamoDB, reason, tail(log, shownLines)}
}

// abandon stops an engine that failed to start and removes its record, even if ctx
// has ended.
func (f *Folder) abandon(ctx context.Context, e *Engine) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*grace)
	defer cancel()
	return f.Down(ctx, e, false)
}

// inUse reports whether a program of this machine listens at a port.
func inUse(ctx context.Context, port int) bool {
	// The name localhost may mean either address.
	for _, host := range []string{loopback, "::1"} {
		dialer := &net.Dialer{Timeout: time.Second}
		if connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			// Nothing was sent.
			_ = connection.Close()
			return true
		}
	}

	// A program that is bound to the port but accepts no connection still keeps
	// it in use.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return ctx.Err() == nil
	}

	// Nothing was accepted.
	_ = listener.Close()
	return false
}

// answers reports whether an HTTP server answers at a port of this machine.
func answers(ctx context.Context, port int) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+net.JoinHostPort(loopback, strconv.Itoa(port)), http.NoBody)
	if err != nil {
		return false
	}

	// A proxy of the environment could not reach this machine, and a kept
	// connection would be left behind.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return false
	}

	return response.Body.Close() == nil
}
