package web

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
)

func TestPlainNumbers(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":2.0,"b":-1.50e1,"c":"2.0","d\"":1e3}`: `{"a":2,"b":-15,"c":"2.0","d\"":1000}`,
		`[0.0,-0.0,0e5,1e-2,100e-2,2.5]`:            `[0,0,0,1e-2,1,2.5]`,
		`[1e18,1e19,1e99,123456789012345678901.0]`:  `[1000000000000000000,1e19,1e99,123456789012345678901.0]`,
		`["\\",2.0,"\\\"",3E+0]`:                    `["\\",2,"\\\"",3]`,
		`[007.0,1.,1.e2,-,.5,-e1]`:                  `[007.0,1.,1.e2,-,.5,-e1]`,
		`{"a": 12}`:                                 `{"a": 12}`,
		`"2.0`:                                      `"2.0`,
	} {
		if got := string(plainNumbers([]byte(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// A number that changes its form keeps its value, and stays JSON.
func FuzzPlainNumber(f *testing.F) {
	for _, seed := range []string{"2.0", "-1.5e1", "1e-2", "1E+3", "0.00", "-0e7", "100e-2", "12", "0 "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, number string) {
		// JSON allows white space around a number, and the caller has cut it off.
		if len(number) > 40 || !json.Valid([]byte(number)) || strings.Trim(number, " \t\r\n") != number ||
			number[0] != '-' && (number[0] < '0' || number[0] > '9') {
			return
		}
		plain := plainNumber(number)
		if plain == number {
			return
		}
		before, ok := new(big.Rat).SetString(number)
		after, valid := new(big.Int).SetString(plain, 10)
		if !ok || !valid || !before.IsInt() || before.Num().Cmp(after) != 0 {
			t.Errorf("%s became %s", number, plain)
		}
	})
}
