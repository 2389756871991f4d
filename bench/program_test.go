package main

import (
	"context"
	"net"
	"strings"
	"testing"
)

// TestProgram checks that a program which does not start says why, and that one
// which runs ends with its context.
func TestProgram(t *testing.T) {
	built, err := buildProgram(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := built.remove(); err != nil {
			t.Error(err)
		}
	}()

	_, _, err = built.start(t.Context(), []string{" on http://"}, "proxy", "--store", "memory:")
	if err == nil || !strings.Contains(err.Error(), "--upstream is missing") {
		t.Errorf("without its flags, it fails with %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server, err := built.serve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = server.close() // it reports the end of the context
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.http)
	if err == nil {
		t.Errorf("%s still listens", server.http)
		_ = conn.Close()
	}
}
