package hint

import (
	"os/exec"
	"strings"
	"testing"
)

func TestCommandNamesItsPlace(t *testing.T) {
	for _, c := range []struct {
		place Place
		want  string
	}{
		{Place{}, "`zae-limiter status --name my-app`"},
		{Place{Region: "eu-west-1"}, "`zae-limiter status --name my-app --region eu-west-1`"},
		{
			Place{"eu-west-1", "http://localhost:8000"},
			"`zae-limiter status --name my-app --region eu-west-1 --endpoint-url http://localhost:8000`",
		},
		{
			Place{Endpoint: "http://localhost/?a=1&b=2"},
			"`zae-limiter status --name my-app --endpoint-url 'http://localhost/?a=1&b=2'`",
		},
	} {
		if got := c.place.Command("status", "--name", "my-app"); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if got, want := (Place{"x", "http://y"}).AWS("dynamodb", "z"), "`aws dynamodb z --region x "+
		"--endpoint-url http://y`"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestShellSplitsALineIntoTheSameWords(t *testing.T) {
	words := []string{"", "plain", "it's", "a b", "$HOME", "`x`", "a\nb", `\`, "*", "http://h/?a=1&b"}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell:", err)
	}
	out, err := exec.CommandContext(t.Context(), sh, "-c", `printf '<%s>' `+Shell(words...)).CombinedOutput()
	if want := "<" + strings.Join(words, "><") + ">"; err != nil || string(out) != want {
		t.Errorf("%s %v, want %s", out, err, want)
	}
}
