package main

import (
	"bytes"
	"fmt"
	"strings"
)

// A page is a manual page as it is written, in the language of man(7). Texts are given as
// they are to be read; what would mean something to the formatter is escaped here.
// Source: mandoc's and groff's man(7).
type page struct {
	out bytes.Buffer
}

// newPage begins a page. source is the program's release.
func newPage(name, section, date, source string) *page {
	p := &page{}
	// Without hyphenation and adjustment, names of options can be searched for.
	fmt.Fprintf(&p.out, ".TH %s %s %s %s\n.nh\n.ad l\n", quoted(strings.ToUpper(name)), section, date, quoted(source))
	return p
}

func (p *page) text() []byte { return p.out.Bytes() }

// name is the section that apropos reads.
func (p *page) name(name, does string) {
	p.section("Name")
	p.line(escaped(name) + ` \- ` + escaped(does))
}

// section begins one; its heading is in capitals, as everywhere.
func (p *page) section(heading string) {
	fmt.Fprintf(&p.out, ".SH %s\n", quoted(strings.ToUpper(heading)))
}

// subsection begins one below a section.
func (p *page) subsection(heading string) {
	fmt.Fprintf(&p.out, ".SS %s\n", quoted(heading))
}

// synopsis is one way of use: a program in bold, and what follows it.
func (p *page) synopsis(program, rest string) {
	if !p.fresh() {
		p.out.WriteString(".PP\n")
	}
	p.line(bold(program) + " " + escaped(rest))
}

// paragraphs are separated by empty lines. Lines that begin with a blank stay as they are,
// a table or an example.
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

// fresh reports whether a heading was written last, after which no paragraph need begin.
func (p *page) fresh() bool {
	b := p.out.Bytes()
	last := b[bytes.LastIndexByte(bytes.TrimSuffix(b, []byte("\n")), '\n')+1:]
	return bytes.HasPrefix(last, []byte(".S"))
}

// block is text without empty lines: lines to be filled, and lines to be kept.
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

// lineMax is how long a line may be that is filled anyway. Source: mandoc's lint.
const lineMax = 80

// fill writes text in lines that are not too long.
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

// breakable lets a word that is longer than a screen may be wide be broken after commas.
func breakable(word string) string {
	if len(word) < lineMax/2 {
		return word
	}
	return strings.ReplaceAll(word, ",", `,\:`)
}

// item is a term, which has its marks already, and what it stands for.
func (p *page) item(term, text string) {
	p.out.WriteString(".TP\n")
	p.line(term)
	p.block(text)
}

// more goes on with the item before, in a paragraph of its own.
func (p *page) more(text string) {
	p.out.WriteString(".IP\n")
	p.block(text)
}

// option is the term of a flag: its short form, its long one, what stands for its value.
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

// line writes one that is escaped. What begins as a request would be one.
func (p *page) line(escaped string) {
	if strings.HasPrefix(escaped, ".") || strings.HasPrefix(escaped, "'") {
		escaped = `\&` + escaped
	}
	p.out.WriteString(escaped + "\n")
}

func bold(text string) string   { return `\fB` + escaped(text) + `\fR` }
func italic(text string) string { return `\fI` + escaped(text) + `\fR` }

// escaped is text of which nothing means anything to the formatter. Dashes become the sign
// that can be copied to a command line; quotes stay straight.
var escaped = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, "`", `\(ga`, `^`, `\(ha`, `~`, `\(ti`, `…`, `...`, `¹`, `\(S1`).Replace

// quoted is an argument of a request.
func quoted(text string) string {
	return `"` + strings.ReplaceAll(escaped(text), `"`, `\(dq`) + `"`
}
