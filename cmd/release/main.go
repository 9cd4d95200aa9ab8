// Release makes what polystalk is given to others as: archives of static programs, packages
// for Debian's and RPM's tools, an image for containers, a bill of materials, checksums.
//
//	make release
//	go -C cmd/release run . -root ../.. -out DIR [-platforms linux/amd64,…] [-version 1.2.3]
//
// It is a module of its own: the libraries that write packages, images and bills of
// materials bring forty others along, which nobody should have to download or trust who
// only builds the server. Unlike "go run nfpm@version" a module has a go.sum with a checksum
// for each of them, and once they are downloaded needs no network. It imports nothing of
// the server's module, and learns what it must know by running what it builds; so the two
// lists of libraries need not agree, and change alone.
//
//	source   which version, of which commit and day
//	build    the programs, and the texts that they write
//	content  what is installed beside them
//	archive  tar, in one order          linux  deb and rpm
//	image    an OCI layout              bill   SPDX
//
// The same sources make the same bytes; make release-check looks.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"polystalk/cmd/release/build"
	"polystalk/cmd/release/source"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", "", "the folder of polystalk's sources")
	out := flags.String("out", "", "write the release into this folder, which must be empty or not be there")
	version := flags.String("version", "", "release this version, not that of "+source.VersionFile)
	list := flags.String("platforms", "", fmt.Sprintf("release for these alone, with commas between them (default %v)", build.Platforms))
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	err := func() error {
		if *root == "" || *out == "" || flags.NArg() > 0 {
			return errors.New("the use is: release -root DIR -out DIR; make release knows both")
		}
		platforms, err := build.ParsePlatforms(*list)
		if err != nil {
			return err
		}
		src, err := source.Read(*root, *version, getenv("SOURCE_DATE_EPOCH"))
		if err != nil {
			return err
		}
		return release(ctx, src, platforms, *out, stdout)
	}()
	if err != nil {
		fmt.Fprintf(stderr, "release: %v\n", err)
		return 1
	}
	return 0
}
