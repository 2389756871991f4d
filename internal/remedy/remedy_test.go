package remedy_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

func TestRemediesAreFoundAndChangeNoText(t *testing.T) {
	register := &remedy.Remedy{Call: remedy.RegisterNamespace, Name: "my-app", Args: []string{"team-a"}}
	deploy := &remedy.Remedy{Call: remedy.Deploy, Name: "my-app", Region: "eu-west-1"}
	err := remedy.With(fmt.Errorf("nothing here: %w; %v creates it", io.EOF, deploy), deploy)
	if err.Error() != "nothing here: EOF; infra.Deploy creates it" || !errors.Is(err, io.EOF) {
		t.Error(err)
	}

	all := fmt.Errorf("%w, and then %w", err, remedy.With(errors.New("no namespace"), register))
	if found, ok := errors.AsType[*remedy.Remedy](all); !ok || found != deploy {
		t.Errorf("%v", found)
	}
	if got := remedy.Of(all); !slices.Equal(got, []*remedy.Remedy{deploy, register}) {
		t.Errorf("%v", got)
	}

	if err := remedy.With(io.EOF); err != io.EOF { //nolint:errorlint // the same error, not one around it
		t.Errorf("without a remedy: %#v", err)
	}
	if got := remedy.Of(errors.Join(io.EOF, nil)); got != nil || remedy.Of(nil) != nil {
		t.Errorf("%v", got)
	}
	if found, ok := errors.AsType[*remedy.Remedy](fmt.Errorf("x: %w", io.EOF)); ok {
		t.Errorf("%v", found)
	}
}

func TestCodeOfTwoFunctionsHasTwoTexts(t *testing.T) {
	a, b := &remedy.Remedy{Call: remedy.RestoreCode, Name: "a"}, &remedy.Remedy{Call: remedy.RestoreCode, Name: "b"}
	if a.Error() == b.Error() {
		t.Error(a)
	}
}
