// Release makes the files of a polystalk release: archives of static programs, deb and rpm
// packages, repositories of these, a container image, Homebrew's formula, a bill of materials,
// checksums and signatures.
//
//	make release
//	go -C cmd/release run . -root ../.. -out DIR [-platforms linux/amd64,…] [-version 1.2.3]
//
// It is a separate module: the libraries that write packages, images and bills of materials bring
// forty others along. People that only build the server should neither download nor trust them. Its
// go.sum has a checksum of each library; once downloaded, it needs no network. It imports nothing
// from the server's module, but runs the programs that it builds, so the libraries of the two
// modules change independently.
//
//	source.go   the version, the commit and its date
//	build.go    the programs, manuals and completions
//	content.go  the files of a package, with notices.go, debian.go and version.go
//	tar.go      archives                 package.go  deb and rpm
//	image.go    an OCI layout            bill.go     the bill of materials, SPDX
//	publish.go  the formula, signatures  repository.go  for apt and dnf, with templates
//
// The same sources give the same bytes; make release-check verifies this.
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
	out := flags.String("out", "", "write the release into this folder, which must be empty or not exist")
	version := flags.String("version", "", "release this version, not that of "+versionFile)
	list := flags.String("platforms", "", fmt.Sprintf("release only for these platforms, separated by commas (default %v)", allPlatforms))
	key := flags.String("sign", "", "sign with this key of gpg (default: sign nothing)")
	url := flags.String("url", "", "the address of the folder that will have the files, for Homebrew's formula (default "+downloads+"/VERSION)")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	err := func() error {
		if *root == "" || *out == "" || flags.NArg() > 0 {
			return errors.New("usage: release -root DIR -out DIR; make release knows both")
		}
		platforms, err := parsePlatforms(*list)
		if err != nil {
			return err
		}
		src, err := readSource(*root, *version, getenv("SOURCE_DATE_EPOCH"))
		if err != nil {
			return err
		}
		return release(ctx, src, order{platforms, *out, *key, *url}, stdout)
	}()
	if err != nil {
		fmt.Fprintf(stderr, "release: %v\n", err)
		return 1
	}
	return 0
}
