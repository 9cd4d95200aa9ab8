package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// signedRelease returns a copy of the release that a new key has signed, and the key.
func signedRelease(t *testing.T) (out, key string) {
	t.Helper()
	program := tool(t, "gpg", "gnupg")
	home := t.TempDir()
	t.Setenv("GNUPGHOME", home)
	t.Cleanup(func() { exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() })
	key = "releaser@example.com"
	output(t, program, "--quiet", "--batch", "--passphrase", "", "--quick-generate-key", key)
	out = filepath.Join(t.TempDir(), "out")
	must(t, os.CopyFS(out, os.DirFS(first(t).out)))
	must(t, sign(context.Background(), key, out))
	return out, key
}

// damage changes the end of a file.
func damage(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	must(t, os.WriteFile(name, append(text[:len(text)-1], text[len(text)-1]^1), 0o644))
}

// TestSignatureOfTheSums is the releaser's, and of these sums alone.
func TestSignatureOfTheSums(t *testing.T) {
	out, _ := signedRelease(t)
	t.Setenv("GNUPGHOME", t.TempDir())
	output(t, "gpg", "--quiet", "--batch", "--import", filepath.Join(out, keyFile))
	list := filepath.Join(out, sums)
	output(t, "gpg", "--batch", "--verify", list+".asc", list)
	damage(t, list)
	if said, err := exec.Command("gpg", "--batch", "--verify", list+".asc", list).CombinedOutput(); err == nil {
		t.Errorf("other sums are signed, too: %s", said)
	}
	exec.Command("gpgconf", "--kill", "all").Run()
}

// TestUnknownKeyIsNamed before anything is built.
func TestUnknownKeyIsNamed(t *testing.T) {
	tool(t, "gpg", "gnupg")
	t.Setenv("GNUPGHOME", t.TempDir())
	out := filepath.Join(t.TempDir(), "out")
	err := release(context.Background(), first(t).src, order{platforms: here, out: out, key: "nobody@example.com"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), `the key "nobody@example.com"`) || !strings.Contains(err.Error(), "give SIGN a key") {
		t.Errorf("%v", err)
	}
	if made := filesIn(t, out); len(made) > 0 {
		t.Errorf("%d files were made", len(made))
	}
}

// apt runs apt-get with one source and a root of its own.
func apt(t *testing.T, source string, args ...string) (string, error) {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"etc/apt/sources.list.d", "etc/apt/preferences.d", "etc/apt/trusted.gpg.d", "var/lib/dpkg", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	writeFile(t, root, "var/lib/dpkg/status", "")
	writeFile(t, root, "etc/apt/sources.list", source+"\n")
	var said bytes.Buffer
	for _, args := range [][]string{{"update"}, args} {
		cmd := exec.Command("apt-get", append([]string{
			"-q", "-o", "Dir=" + root, "-o", "Dir::State::status=" + root + "/var/lib/dpkg/status", "-o", "APT::Sandbox::User=root",
			"-o", "APT::Architecture=" + here[0].Arch, "-o", "APT::Architectures=" + here[0].Arch, "-o", "APT::Update::Error-Mode=any",
		}, args...)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = root, &said, &said
		if err := cmd.Run(); err != nil {
			return said.String(), fmt.Errorf("apt-get %q: %w", args, err)
		}
	}
	got, err := filepath.Glob(root + "/*.deb")
	if err != nil || len(got) != 1 {
		return said.String(), fmt.Errorf("it downloaded %q, %w", got, err)
	}
	text, err := os.ReadFile(got[0])
	must(t, err)
	return string(text), nil
}

// TestAptReadsTheRepository, with a key and, if it is told to trust, without. It refuses an index or a
// package that does not match.
func TestAptReadsTheRepository(t *testing.T) {
	tool(t, "apt-get", "apt")
	out, _ := signedRelease(t)
	deb, err := filepath.Glob(out + "/*.deb")
	must(t, err)
	want, err := os.ReadFile(deb[0])
	must(t, err)
	address := "file:" + filepath.Join(out, "apt") + " stable main"
	signed := "deb [signed-by=" + filepath.Join(out, keyFile) + "] " + address
	for _, source := range []string{signed, "deb [trusted=yes] " + address} {
		if got, err := apt(t, source, "download", "polystalk"); err != nil || got != string(want) {
			t.Errorf("%s: %v\n%.2000s", source, err, got)
		}
	}
	pooled := filepath.Join(out, "apt", aptPool, filepath.Base(deb[0]))
	damage(t, pooled)
	if _, err := apt(t, signed, "download", "polystalk"); err == nil {
		t.Error("apt takes a damaged package")
	}
	must(t, os.WriteFile(pooled, want, 0o644))
	damage(t, filepath.Join(out, aptDist, "main/binary-"+here[0].Arch, "Packages"))
	damage(t, filepath.Join(out, aptDist, "main/binary-"+here[0].Arch, "Packages.gz"))
	if _, err := apt(t, signed, "download", "polystalk"); err == nil {
		t.Error("apt takes a damaged index")
	}
}

// dnf asks dnf about the package in a repository. The index must be signed.
func dnf(t *testing.T, out string, ask ...string) (string, error) {
	t.Helper()
	root := t.TempDir()
	writeFile(t, root, "repos/polystalk.repo", "[polystalk]\nname=polystalk\nbaseurl=file://"+filepath.Join(out, "dnf")+
		"\nskip_if_unavailable=0\ngpgcheck=0\nrepo_gpgcheck=1\ngpgkey=file://"+filepath.Join(out, keyFile)+"\n")
	said, err := exec.Command("dnf", append([]string{
		"-q", "-y", "--installroot=" + root, "--setopt=reposdir=" + root + "/repos", "--setopt=cachedir=" + root + "/cache", "--releasever=1",
		"--forcearch=" + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[here[0].Arch], "repoquery",
	}, ask...)...).Output()
	return string(said), err
}

// TestDnfReadsTheRepository: it lists the same files and requirements as rpm does.
func TestDnfReadsTheRepository(t *testing.T) {
	tool(t, "dnf", "dnf")
	rpm := tool(t, "rpm", "rpm")
	out, _ := signedRelease(t)
	m := first(t)
	for ask, query := range map[string]string{"--list": "-l", "--requires": "-R", "--provides": "-P"} {
		got, err := dnf(t, out, ask, "polystalk")
		must(t, err)
		var want []string
		for _, line := range lines(output(t, rpm, "-qp", "--nosignature", query, m.the(t, "*.rpm"))) {
			if !strings.HasPrefix(line, "rpmlib(") {
				want = append(want, line)
			}
		}
		holds(t, lines(got), want)
	}
	got, err := dnf(t, out, "--qf", "%{name} %{evr} %{summary} %{license} %{location}", "polystalk")
	must(t, err)
	if want := "polystalk " + m.src.Version + "-1 job server that speaks beanstalkd's and Gearman's protocols MIT " + filepath.Base(m.the(t, "*.rpm")); strings.TrimSpace(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	damage(t, filepath.Join(out, dnfData, "repomd.xml"))
	if said, err := dnf(t, out, "polystalk"); err == nil && said != "" {
		t.Errorf("dnf takes another index: %s", said)
	}
}

// TestFormulaHasEachArchive with its checksum, and Ruby can read it.
func TestFormulaHasEachArchive(t *testing.T) {
	ruby := tool(t, "ruby", "ruby")
	out := t.TempDir()
	src := &Source{Version: "1.2.3"}
	for _, p := range allPlatforms {
		writeFile(t, out, archiveName(src, p), p.String())
	}
	must(t, writeFormula(src, allPlatforms, "https://example.com/1.2.3/", out))
	// A small Formula that records the archives.
	const reader = `class Formula
  class << self
    %w[desc homepage version license depends_on service test].each { |m| define_method(m) { |*| } }
    def method_missing(name, *args, &block)
      case name.to_s
      when /\Aon_/ then (@at ||= []).push(name); block.call; @at.pop
      when "url" then print @at.join(" "), " ", args[0]
      when "sha256" then puts " " + args[0]
      else raise "unknown: #{name}"
      end
    end
  end
end
load ARGV[0]
`
	writeFile(t, out, "reader.rb", reader)
	got := lines(output(t, ruby, filepath.Join(out, "reader.rb"), filepath.Join(out, "polystalk.rb")))
	var want []string
	for p, at := range map[string]string{"linux-amd64": "on_linux on_intel", "linux-arm64": "on_linux on_arm", "darwin-arm64": "on_macos on_arm"} {
		file := "polystalk-1.2.3-" + p + ".tar.gz"
		s, err := read(filepath.Join(out, file))
		must(t, err)
		want = append(want, at+" https://example.com/1.2.3/"+file+" "+s.SHA256)
	}
	holds(t, got, want)
	if text, err := os.ReadFile(first(t).the(t, "polystalk.rb")); err != nil || !strings.Contains(string(text), downloads+"/") || strings.Contains(string(text), "macos") {
		t.Errorf("the formula of a release for %v: %v\n%s", here, err, text)
	}
}
