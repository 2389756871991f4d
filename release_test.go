package limiter_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
)

// otherRelease is a store of another minor version.
type otherRelease struct{ *memory.Repository }

// Release returns a version that this module never has.
func (otherRelease) Release() string { return "0.0" }

// TestStoresOfAnotherReleaseAreRefused checks the store, and a store in a wrapper.
func TestStoresOfAnotherReleaseAreRefused(t *testing.T) {
	store := otherRelease{memory.New(nil)}
	for _, repo := range []limiter.Repository{store, escrow.New(store, nil)} {
		_, err := limiter.New(repo, nil)
		if err == nil || !strings.Contains(err.Error(), "is built for zae-limiter 0.0") {
			t.Errorf("%T: %v", repo, err)
		}
	}
	check(t, store.Close())
}

// TestModulesHaveOneRelease compares the constants that scripts/release sets.
func TestModulesHaveOneRelease(t *testing.T) {
	constant := regexp.MustCompile(`(?m)^const release = "(\d+\.\d+)"$`)
	found := map[string]string{}
	for _, file := range []string{"release.go", "sqlite/release.go", "dynamo/release.go"} {
		text, err := os.ReadFile(file)
		check(t, err)
		match := constant.FindStringSubmatch(string(text))
		if match == nil {
			t.Fatalf("%s has no release", file)
		}
		found[match[1]] = file
	}
	if len(found) != 1 {
		t.Errorf("the modules have several releases: %v", found)
	}
}
