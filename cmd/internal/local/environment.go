package local

import (
	"fmt"
	"strings"
)

// Credentials and region that every engine accepts.
const (
	AccessKey = "test"
	SecretKey = "test"
	Region    = "us-east-1"
)

// Variable is an environment variable.
type Variable struct{ Name, Value string }

// Environment returns the variables with which programs use a table of the engine
// at endpoint.
func Environment(endpoint, table string) []Variable {
	return []Variable{
		{"AWS_ENDPOINT_URL", endpoint},
		{"AWS_ACCESS_KEY_ID", AccessKey},
		{"AWS_SECRET_ACCESS_KEY", SecretKey},
		{"AWS_DEFAULT_REGION", Region},
		{"ZAEL_STACK", table},
	}
}

// Format is a syntax for environment variables.
type Format string

// Formats of environment variables.
const (
	FormatEval       Format = "eval"       // lines for a POSIX shell
	FormatDirenv     Format = "direnv"     // lines of a .env file
	FormatPowerShell Format = "powershell" // lines for PowerShell
)

// Write returns a line for each variable. Values must need no quotes, which is
// true for those of Environment.
func (f Format) Write(variables []Variable) string {
	pattern := map[Format]string{
		FormatEval: "export %s=%s\n", FormatDirenv: "%s=%s\n", FormatPowerShell: "$env:%s = %q\n",
	}[f]
	var b strings.Builder
	for _, v := range variables {
		fmt.Fprintf(&b, pattern, v.Name, v.Value)
	}
	return b.String()
}
