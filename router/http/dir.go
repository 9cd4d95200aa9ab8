package http

import (
	"fmt"
	"os"

	"github.com/cespare/xxhash/v2"
)

// Dir finds files in a folder instead of those in the program, as they are at that time: who
// works on the console sees a change by loading the page again. The modules are not joined.
// The error says what the folder lacks.
func Dir(dir string) (find func(name string) *File, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: give the folder router/http/console of the sources, or leave it out for the console in the program", err)
	}
	for _, name := range []string{Index, firstModule} {
		if _, err := root.Stat(name); err != nil {
			return nil, fmt.Errorf("%s has no %s, so it has no console: give the folder router/http/console of the sources", dir, name)
		}
	}
	return func(name string) *File {
		t := mediaType(name)
		if t == "" {
			return nil
		}
		b, err := root.ReadFile(name)
		if err != nil {
			return nil
		}
		return &File{Type: t, Plain: b, Sum: xxhash.Sum64(b)}
	}, nil
}
