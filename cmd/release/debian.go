package main

import (
	"fmt"
	"time"
)

// maintainer is the maintainer that packages name. The address is in a domain for examples, so it
// gets no mail.
const maintainer = "The polystalk authors <maintainers@polystalk.example>"

// copyright returns the licences in Debian's machine-readable format. Source: Debian's
// copyright-format 1.0.
func (s *Stage) copyright() []byte {
	return []byte(`Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: polystalk
Comment: The programs hold libraries of others. Which ones, and under which
 licences, is in /usr/share/doc/polystalk/NOTICES.gz.

Files: *
Copyright: 2026 The polystalk authors
License: Expat

License: Expat
 Permission is hereby granted, free of charge, to any person obtaining a copy
 of this software and associated documentation files (the "Software"), to deal
 in the Software without restriction, including without limitation the rights
 to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
 copies of the Software, and to permit persons to whom the Software is
 furnished to do so, subject to the following conditions:
 .
 The above copyright notice and this permission notice shall be included in all
 copies or substantial portions of the Software.
 .
 THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
 IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
 FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
 AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
 LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
 OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
 SOFTWARE.
`)
}

// changelog returns Debian's changelog with one entry. The repository's history has the changes.
func (s *Stage) changelog() []byte {
	of := "sources without a repository"
	if s.src.Revision != "" {
		of = "commit " + s.src.Revision[:12]
	}
	return fmt.Appendf(nil, "polystalk (%s) stable; urgency=medium\n\n  * Release %s, of %s.\n\n -- %s  %s\n",
		s.PackageVersion(), s.src.Version, of, maintainer, s.src.Date.Format(time.RFC1123Z))
}

// lintianOverrides accepts Go's statically linked programs, which are intended.
var lintianOverrides = []byte(`polystalk: statically-linked-binary [usr/bin/polystalk]
polystalk: statically-linked-binary [usr/bin/polystalkd]
`)
