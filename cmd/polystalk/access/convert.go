package access

import (
	"fmt"
	"regexp"
	"strings"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/tomlfile"
	"polystalk/router/access"
)

// invalid matches what a name of an identity cannot have.
var invalid = regexp.MustCompile(`[^a-z0-9_-]`)

// Convert returns the access file for a file of tokens, which polystalkd had before. Each of its
// lines is NAME ROLE sha256:HEX [+bodies]. The error is a tomlfile.Errors.
func Convert(file string) (string, error) {
	text, err := access.ReadFile(file, true)
	if err != nil {
		return "", client.Errorf(client.System, "the file of tokens cannot be read: %v: give the file of --http-tokens-file", err)
	}
	var out strings.Builder
	var faults tomlfile.Errors
	names, digests := map[string]bool{"none": true, "server": true, "default": true}, make(map[string]int)
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		at := tomlfile.Place{File: file, Line: n}
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		// By mistake, a word may be a token: errors do not show it.
		if len(words) < 3 || len(words) > 4 || len(words) == 4 && words[3] != "+bodies" {
			faults = append(faults, at.Errorf("the line is not NAME ROLE sha256:HEX, with +bodies or without it: correct or remove it"))
			continue
		}
		g, digest := Grants{Role: words[1]}, strings.ToLower(words[2])
		if len(words) == 4 {
			g = ForRole(words[1])
		}
		name := validName(words[0], names)
		table, err := g.table(name, digest)
		switch {
		case err != nil:
			faults = append(faults, at.Errorf("%v", err))
		case digests[digest] > 0:
			faults = append(faults, at.Errorf("the token is already in line %d: leave one of the two out", digests[digest]))
		default:
			digests[digest], names[name] = n, true
			if name != words[0] {
				fmt.Fprintf(&out, "# The name was %q.\n", words[0])
			}
			out.WriteString(table + "\n")
		}
	}
	if len(faults) == 0 && out.Len() == 0 {
		faults = append(faults, tomlfile.Place{File: file}.Errorf("there is no token: give the file of --http-tokens-file"))
	}
	if len(faults) > 0 {
		return "", faults
	}
	return "# The role admin shows whole job bodies, whatever --http-bodies says. A token has at least 20 bytes.\n\n" + strings.TrimSuffix(out.String(), "\n"), nil
}

// validName makes a name of an identity that is not one of names.
func validName(name string, names map[string]bool) string {
	valid := invalid.ReplaceAllString(strings.ToLower(name), "-")
	valid = valid[:min(len(valid), 60)]
	for n, first := 2, valid; names[valid]; n++ {
		valid = fmt.Sprintf("%s-%d", first, n)
	}
	return valid
}
