package main

import (
	"bytes"
	"fmt"
	"strings"
)

// A page is a manual page in the language of man(7). Its methods take plain text and escape
// characters that the formatter would interpret. Source: mandoc's and groff's man(7).
type page struct {
	out bytes.Buffer
}

// newPage begins a page. source names the release.
func newPage(name, section, date, source string) *page {
	p := &page{}
	// Without hyphenation and adjustment, option names can be searched for.
	fmt.Fprintf(&p.out, ".TH %s %s %s %s\n.nh\n.ad l\n", quoted(strings.ToUpper(name)), section, date, quoted(source))
	return p
}

func (p *page) text() []byte { return p.out.Bytes() }

// name writes the section that apropos reads.
func (p *page) name(name, does string) {
	p.section("Name")
	p.line(escaped(name) + ` \- ` + escaped(does))
}

// section begins a section. By convention its heading is in capitals.
func (p *page) section(heading string) {
	fmt.Fprintf(&p.out, ".SH %s\n", quoted(strings.ToUpper(heading)))
}

// subsection begins a subsection.
func (p *page) subsection(heading string) {
	fmt.Fprintf(&p.out, ".SS %s\n", quoted(heading))
}

// synopsis writes a synopsis: the program in bold, then its arguments.
func (p *page) synopsis(program, rest string) {
	if !p.fresh() {
		p.out.WriteString(".PP\n")
	}
	p.line(bold(program) + " " + escaped(rest))
}

// paragraphs writes paragraphs, which empty lines separate. It keeps lines that begin with a space,
// as in tables and examples.
func (p *page) paragraphs(text string) {
	first := true
	for block := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		if !first || !p.fresh() {
			p.out.WriteString(".PP\n")
		}
		first = false
		p.block(block)
	}
}

// fresh reports whether a heading was written last; then a paragraph needs no request.
func (p *page) fresh() bool {
	b := p.out.Bytes()
	last := b[bytes.LastIndexByte(bytes.TrimSuffix(b, []byte("\n")), '\n')+1:]
	return bytes.HasPrefix(last, []byte(".S"))
}

// block writes text without empty lines. It fills lines, or keeps lines that begin with a space.
func (p *page) block(text string) {
	kept := false
	for line := range strings.SplitSeq(text, "\n") {
		if keep := strings.HasPrefix(line, " "); keep != kept {
			kept = keep
			p.out.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[keep])
		}
		if kept {
			p.line(escaped(line))
		} else {
			p.fill(line)
		}
	}
	if kept {
		p.out.WriteString(".fi\n")
	}
}

// lineMax is the longest line in the source of a page. Source: mandoc's lint.
const lineMax = 80

// fill writes text in lines of up to lineMax.
func (p *page) fill(text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		word = breakable(escaped(word))
		if line != "" && len(line)+1+len(word) > lineMax {
			p.line(line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		p.line(line)
	}
}

// breakable allows line breaks after commas in a word that may be wider than a screen.
func breakable(word string) string {
	if len(word) < lineMax/2 {
		return word
	}
	return strings.ReplaceAll(word, ",", `,\:`)
}

// item writes a term, which already has its markup, and its explanation.
func (p *page) item(term, text string) {
	p.out.WriteString(".TP\n")
	p.line(term)
	p.block(text)
}

// more adds a paragraph to the last item.
func (p *page) more(text string) {
	p.out.WriteString(".IP\n")
	p.block(text)
}

// option returns the term of a flag: its short form, its long form, and a placeholder.
func option(short, long, value string) string {
	var term string
	if short != "" {
		term = bold("-"+short) + ", "
	}
	term += bold("--" + long)
	if inner, ok := strings.CutPrefix(value, "["); ok {
		return term + "[" + bold("=") + italic(strings.TrimSuffix(inner, "]")) + "]"
	}
	if value != "" {
		term += " " + italic(value)
	}
	return term
}

// line writes an escaped line. It keeps the formatter from reading the line as a request.
func (p *page) line(escaped string) {
	if strings.HasPrefix(escaped, ".") || strings.HasPrefix(escaped, "'") {
		escaped = `\&` + escaped
	}
	p.out.WriteString(escaped + "\n")
}

func bold(text string) string   { return `\fB` + escaped(text) + `\fR` }
func italic(text string) string { return `\fI` + escaped(text) + `\fR` }

// escaped escapes text for the formatter. Dashes can be copied to a command line; quotes stay
// straight.
var escaped = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, "`", `\(ga`, `^`, `\(ha`, `~`, `\(ti`, `…`, `...`, `¹`, `\(S1`).Replace

// quoted returns text as the argument of a request.
func quoted(text string) string {
	return `"` + strings.ReplaceAll(escaped(text), `"`, `\(dq`) + `"`
}
