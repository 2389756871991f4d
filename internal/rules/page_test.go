package rules_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

func TestCursorsKeepEveryPosition(t *testing.T) {
	for _, p := range []rules.Position{
		{"a", "x"},
		{"a", ""},
		{strings.Repeat("é", 128), "gpt-4/mini"},
		{"\x00\xff\"", "\xff"},
	} {
		cursor := p.Cursor()
		if strings.Trim(cursor, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			t.Errorf("cursor %q has other characters than letters, digits, - and _", cursor)
		}
		got, size, err := rules.StartPage(limiter.BucketQuery{After: cursor, Prefix: p.Entity[:1], Max: 2000})
		if err != nil || got != p || size != 1000 {
			t.Errorf("%q: %q, %d, %v", p, got, size, err)
		}
	}
}

func TestBadQueriesAreInvalid(t *testing.T) {
	good := rules.Position{Entity: "alice", Resource: "gpt-4"}.Cursor()
	for name, q := range map[string]limiter.BucketQuery{
		"no cursor":          {After: "alice"},
		"another alphabet":   {After: "!!"},
		"another version":    {After: "AgFhAAAAAA"},
		"a length too long":  {After: "AQlhAAAAAA"},
		"without an entity":  {After: "AQB4AAAAAA"},
		"a long varint":      {After: "AYCAgICAgICAgICA"},
		"only a varint":      {After: "AYCAgICAAAA"},
		"cut off":            {After: good[:len(good)-4]},
		"changed":            {After: good[:5] + "x" + good[6:]},
		"padded":             {After: good + "="},
		"another prefix":     {After: good, Prefix: "bob"},
		"a negative maximum": {Max: -1},
		"a long prefix":      {Prefix: strings.Repeat("a", 257)},
		"a long name":        {After: rules.Position{Entity: strings.Repeat("a", 1000)}.Cursor()},
	} {
		_, _, err := rules.StartPage(q)
		if _, ok := errors.AsType[*limiter.InvalidError](err); !ok {
			t.Errorf("%s: %v, want an *InvalidError", name, err)
		}
	}
	if _, size, err := rules.StartPage(limiter.BucketQuery{}); err != nil || size != 100 {
		t.Errorf("the zero query: %d, %v; want 100", size, err)
	}
}

func TestPlaces(t *testing.T) {
	after := rules.Position{Entity: "b", Resource: "m"}
	whole := rules.Position{Entity: "b"}
	for _, c := range []struct {
		entity, resource string
		after, whole     bool
	}{
		{"a", "z", true, true},
		{"b", "a", true, true},
		{"b", "m", true, true},
		{"b", "n", false, true},
		{"b1", "a", false, false},
		{"c", "a", false, false},
	} {
		if got := after.Passed(c.entity, c.resource); got != c.after {
			t.Errorf("%s %s after a bucket: passed %v", c.entity, c.resource, got)
		}
		if got := whole.Passed(c.entity, c.resource); got != c.whole {
			t.Errorf("%s %s after an entity: passed %v", c.entity, c.resource, got)
		}
	}
	if (rules.Position{}).Passed("\x00", "\x00") {
		t.Error("the zero position has passed a bucket")
	}
}
