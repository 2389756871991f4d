package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// TestRefillRows runs the section on DynamoDB Local. The section itself checks
// that no tokens are lost or made.
func TestRefillRows(t *testing.T) {
	if testing.Short() {
		t.Skip("DynamoDB Local takes a while to start")
	}
	cfg := smallConfig()
	cfg.engine = fullConfig().engine
	var out bytes.Buffer
	r := &report{out: &out}
	if err := refillSection(context.Background(), cfg, r); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	text := out.String()
	if strings.Contains(text, "left out") {
		if os.Getenv("CI") == "true" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	for _, l := range loads() {
		if cells := l.cells(); !hasRow(text, cells...) {
			t.Errorf("no row %q", cells)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestTripsArePerCall checks that a request is counted for its own call only.
func TestTripsArePerCall(t *testing.T) {
	ctx, endpoint := t.Context(), newStub(t, time.Millisecond)
	now := time.Now()
	ours, err := newService(ctx, endpoint, loner, now, false)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		admitted, trips, err := ours.take(ctx, now)
		if !admitted || trips != 1 || err != nil {
			t.Errorf("admitted %t by %d requests, %v", admitted, trips, err)
		}
	}
	if err := ours.repo.Close(); err != nil {
		t.Error(err)
	}
}

func TestSteadyLoadIsAsOffered(t *testing.T) {
	l := load{takers: 4, offered: 0.5}
	all := l.arrivals(time.Minute, 1)
	if want := 30 * refillPerSecond; len(all) < want-l.takers || len(all) > want+l.takers {
		t.Errorf("%d calls, want %d", len(all), want)
	}
	for i := 1; i < len(all); i++ {
		if all[i].at < all[i-1].at {
			t.Fatalf("call %d comes before the one before it", i)
		}
	}
}

func TestTokensThatAreLostOrMadeAreFound(t *testing.T) {
	was := storedBucket{refilled: 0, rpm: 5 * rpmTaken, tpm: 5 * tpmTaken}
	is := storedBucket{
		refilled: 1000, rpm: was.rpm + (refillPerSecond-3)*rpmTaken,
		tpm: was.tpm + (refillPerSecond-3)*tpmTaken,
	}
	under := &loading{loaded: loaded{admitted: 3}}
	if err := under.checkBalance(was, is); err != nil {
		t.Error(err)
	}
	lost, made := is, is
	lost.tpm--
	made.rpm += bucket.Milli
	for _, wrong := range []storedBucket{lost, made} {
		if under.checkBalance(was, wrong) == nil {
			t.Errorf("%v passes for %v", wrong, is)
		}
	}
}
