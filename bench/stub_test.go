package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"
)

// TestMain lets the test binary run as a child, like the program.
func TestMain(m *testing.M) {
	if childWork(os.Args[1:], os.Stdout) != nil {
		os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// newStub starts a stub in a process of its own, with a prepared table.
func newStub(tb testing.TB, delay time.Duration) (endpoint string) {
	tb.Helper()
	ctx := context.Background()
	c, endpoint, err := startServer(ctx, thisProgram, stubCommand, delay.String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.close(); err != nil {
			tb.Errorf("the stub did not end by itself: %v", err)
		}
	})
	if err := prepare(ctx, endpoint); err != nil {
		tb.Fatal(err)
	}
	return endpoint
}

// TestRawUpdateIsOurs checks that the raw client sends exactly the update of
// our store.
func TestRawUpdateIsOurs(t *testing.T) {
	ctx, endpoint := context.Background(), newStub(t, 0)
	ours, err := record(ctx, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	in, err := ours.input()
	if err != nil {
		t.Fatal(err)
	}
	raw := &recorder{HTTPClient: tunedClient()}
	if err := rawUpdate(newRawClient(endpoint, raw), in)(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := decoded(t, raw.last), decoded(t, ours.last); !reflect.DeepEqual(got, want) {
		t.Errorf("the raw client sends %v, our store %v", got, want)
	}
}

func decoded(t *testing.T, body []byte) (fields map[string]any) {
	t.Helper()
	if err := json.Unmarshal(body, &fields); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return fields
}

// TestOneRequestEach checks that a warm acquire is one request and a cascade
// two, at any number of callers. Otherwise the stub would not show the plain
// path.
func TestOneRequestEach(t *testing.T) {
	counts, err := requestsPerCall(context.Background(), []int{1, 16}, newStub(t, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[caller]float64{
		{nameRaw, 1}: 1, {nameOurs, 1}: 1, {nameCascade, 1}: 2,
		{nameRaw, 16}: 1, {nameOurs, 16}: 1, {nameCascade, 16}: 2,
	}
	if !reflect.DeepEqual(counts, want) {
		t.Errorf("got %v, want %v", counts, want)
	}
}

// TestMissingProgramsLeaveOneLine checks that the report goes on without them.
func TestMissingProgramsLeaveOneLine(t *testing.T) {
	cfg := smallConfig()
	cfg.engine, cfg.python = "./no-such-engine", "./no-such-python"
	var out bytes.Buffer
	r := &report{out: &out}
	if err := dynamoSection(context.Background(), cfg, r); err != nil {
		t.Error(err)
	}
	if py := pythonOrNot(context.Background(), cfg, r, ""); py != nil {
		t.Error("there is a Python")
	}
	if got := bytes.Count(out.Bytes(), []byte("\n")); got != 2 || len(r.targets) != 0 {
		t.Errorf("printed\n%s", out.String())
	}
}
