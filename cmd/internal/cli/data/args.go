package data

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

func entityArg(target *string) kit.Argument {
	return kit.Argument{Name: "ENTITY", Set: func(s string) error {
		*target = s
		return limiter.Entity{ID: s}.Validate()
	}}
}

func resourceArg(target *string) kit.Argument {
	return kit.Argument{Name: "RESOURCE", Set: func(s string) error {
		*target = s
		return checkResource(s)
	}}
}

func checkResource(name string) error {
	// Package limiter exports no validation of the name of a resource alone.
	return limiter.Request{Entity: "any", Resource: name, Consume: limiter.Tokens("any", 0)}.Validate()
}

// parseAmounts parses words LIMIT=TOKENS, each limit once, with at least so many
// tokens.
func parseAmounts(words []string, least int64) (limiter.Amounts, error) {
	var amounts limiter.Amounts

	for _, word := range words {
		limit, n, err := parseAmount(word, least)
		if err != nil {
			return amounts, err
		}
		for other := range amounts.All() {
			if other == limit {
				return amounts, kit.Usagef("%s is given twice; give each limit once", limit)
			}
		}

		amounts = amounts.And(limit, n)
	}
	return amounts, nil
}

func parseAmount(word string, least int64) (limit string, n int64, err error) {
	limit, digits, ok := strings.Cut(word, "=")
	if !ok {
		return "", 0, kit.Usagef("invalid amount %q: must be LIMIT=TOKENS, such as tpm=500, tpm=10k or 'spend=$0.25'",
			kit.Clip(word))
	}

	if err := limiter.PerMinute(limit, 1).Validate(); err != nil {
		return "", 0, kit.Usagef("%v", err)
	}

	n, why := figure.Parse(limit, digits)
	if why == "" && n < least {
		why = fmt.Sprintf("must be %d or more", least)
	}

	if why != "" {
		return "", 0, kit.Usagef("invalid amount %q: %s %s", kit.Clip(word), limit, why)
	}
	return limit, n, nil
}

// exclusiveFlags rejects a command line with more than one of these flags.
func exclusiveFlags(cmd *cobra.Command, flags ...string) {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		given := ""
		for _, flag := range flags {
			switch {
			case !cmd.Flags().Changed(flag):
			case given != "":
				return kit.Usagef("--%s and --%s exclude each other; give one of them", given, flag)
			default:
				given = flag
			}
		}
		return nil
	}
}

// addRowLimit adds the flag --limit, the maximum number of rows.
func addRowLimit(cmd *cobra.Command, target *int, short string, fallback int) {
	*target = fallback

	shown := "all"
	if fallback > 0 {
		shown = strconv.Itoa(fallback)
	}

	kit.AddFlagP(cmd, target, "limit", short, "number", shown, "maximum number of rows; 0 for all",
		func(text string) (int, error) {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return 0, errors.New("must be a whole number, 0 or more")
			}
			return n, nil
		})
}
