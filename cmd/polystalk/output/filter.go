package output

import (
	"fmt"

	"github.com/itchyny/gojq"

	"polystalk/cmd/internal/terminal"
	"polystalk/cmd/polystalk/fault"
)

// A Filter is an expression of jq.
type Filter struct {
	text string
	code *gojq.Code
}

// NewFilter reads an expression. It can neither read files nor look at the environment.
func NewFilter(text string) (*Filter, error) {
	q, err := gojq.Parse(text)
	if err != nil {
		return nil, fault.New(fault.Usage, "--jq %q cannot be read: %v: see the manual of jq", text, err)
	}
	code, err := gojq.Compile(q)
	if err != nil {
		return nil, fault.New(fault.Usage, "--jq %q cannot be used: %v: see the manual of jq", text, err)
	}
	return &Filter{text, code}, nil
}

// run shows what the expression makes of a document: texts as they are, all else as JSON, each
// on a line.
func (f *Filter) run(p *Printer, document []byte) error {
	v, err := Decode(document)
	if err != nil {
		return err
	}
	for results := f.code.Run(v); ; {
		result, ok := results.Next()
		if !ok {
			return nil
		}
		if err, failed := result.(error); failed {
			if halt, ok := err.(*gojq.HaltError); ok && halt.Value() == nil {
				return nil
			}
			return fault.New(fault.Usage, "--jq %q does not go with what the server says: %v: look at it with -o json", f.text, err)
		}
		line, isText := result.(string)
		if !isText {
			b, err := gojq.Marshal(result)
			if err != nil {
				return err
			}
			line = string(safeJSON(b))
		} else if p.Screen {
			line = terminal.Safe(line)
		}
		if _, err := fmt.Fprintln(p.Out, line); err != nil {
			return err
		}
	}
}
