package cli

import "github.com/spf13/cobra"

// form is how rows are printed.
type form string

const (
	formJSON  form = "json"
	formTable form = "table"
	formTSV   form = "tsv" // fields separated by tabs, without a heading
)

const formFlag = "output"

// addForm gives a reading command the flag for its form, unless it writes a file
// that is called so.
func addForm(cmd *cobra.Command, asJSON *bool) {
	if cmd.Flags().Lookup(formFlag) != nil {
		return
	}
	words := []form{formJSON, formTable, formTSV}
	addFlagP(cmd, new(form), formFlag, "o", "form", "", "json, table or tsv (default: table on a terminal, else tsv)", func(text string) (form, error) {
		f, err := choice(words...)(text)
		if f == formJSON {
			*asJSON = true
		}
		return f, err
	})
	_ = cmd.RegisterFlagCompletionFunc(formFlag, complete(words...))
}

// takeForm makes out what --output says it is.
func (c *console) takeForm(cmd *cobra.Command) error {
	flag := cmd.Flags().Lookup(formFlag)
	if flag == nil || !flag.Changed {
		return nil
	}
	v, ok := flag.Value.(*value[form])
	if !ok {
		return nil
	}
	if *v.target != formJSON && cmd.Flags().Changed("json") {
		return usagef("--json and --output %s exclude each other; give one of them", *v.target)
	}
	c.terminal = *v.target == formTable
	return nil
}
