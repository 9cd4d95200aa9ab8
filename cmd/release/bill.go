package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

// noAssertion is the value of SPDX for a fact that was not checked.
const noAssertion = "NOASSERTION"

// A document is an SPDX document that is being built.
type document struct {
	spdx.Document
	known map[common.ElementID]bool
}

// writeBill writes the bill of materials to the file name, which must not exist.
func writeBill(stage *Stage, src *Source, platforms []Platform, name string) error {
	d := newDocument(src)
	top := d.add(&spdx.Package{
		PackageName: "polystalk", PackageVersion: src.Version, PackageSourceInfo: sourceInfo(src),
		PackageLicenseDeclared: "MIT", PackageCopyrightText: "2026 The polystalk authors", PrimaryPackagePurpose: "APPLICATION",
	}, "polystalk")
	d.relate("DOCUMENT", common.TypeRelationshipDescribe, top)
	for _, p := range platforms {
		for _, program := range programNames {
			if err := d.addProgram(stage, p, program, src.Version, top); err != nil {
				return err
			}
		}
	}
	if err := d.addBrowserLibraries(src, top); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Write(&d.Document, &b, json.Indent(" ")); err != nil {
		return fmt.Errorf("the bill of materials: %w", err)
	}
	if err := checkBill(b.Bytes(), d); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	return cmp.Or(err, f.Close())
}

func newDocument(src *Source) *document {
	name := "polystalk-" + src.Version
	of := cmp.Or(src.Revision, src.Date.Format(time.RFC3339))
	return &document{known: make(map[common.ElementID]bool), Document: spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: name, DocumentNamespace: "https://spdx.org/spdxdocs/" + url.PathEscape(name+"-"+of),
		CreationInfo: &spdx.CreationInfo{
			Created: src.Date.Format(time.RFC3339),
			Creators: []common.Creator{
				{CreatorType: "Organization", Creator: "The polystalk authors"}, {CreatorType: "Tool", Creator: "polystalk-release"},
			},
		},
	}}
}

func sourceInfo(src *Source) string {
	if src.Revision == "" {
		return ""
	}
	return "commit " + src.Revision
}

// notInIDs matches characters that SPDX identifiers must not have.
var notInIDs = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// add adds a package unless it exists, and returns its identifier, which is built from words.
func (d *document) add(p *spdx.Package, words ...string) common.ElementID {
	id := common.ElementID(notInIDs.ReplaceAllString(strings.Join(words, "-"), "-"))
	if d.known[id] {
		return id
	}
	d.known[id] = true
	p.PackageSPDXIdentifier = id
	p.PackageDownloadLocation = noAssertion
	p.PackageLicenseConcluded = noAssertion
	p.PackageLicenseDeclared = cmp.Or(p.PackageLicenseDeclared, noAssertion)
	p.PackageCopyrightText = cmp.Or(p.PackageCopyrightText, noAssertion)
	d.Packages = append(d.Packages, p)
	return id
}

func (d *document) relate(a common.ElementID, how string, b common.ElementID) {
	d.Relationships = append(d.Relationships, &spdx.Relationship{
		RefA: common.MakeDocElementID("", string(a)), RefB: common.MakeDocElementID("", string(b)), Relationship: how,
	})
}

// libraryPackage returns a package with a package URL of this kind, name and version.
func libraryPackage(kind, name, version, comment string) *spdx.Package {
	return &spdx.Package{
		PackageName: name, PackageVersion: version, PackageComment: comment, PrimaryPackagePurpose: "LIBRARY",
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
			Locator: "pkg:" + kind + "/" + inURL(name) + "@" + url.QueryEscape(version),
		}},
	}
}

// inURL returns a name in the form of package URLs: slashes stay.
func inURL(name string) string {
	return strings.NewReplacer("%2F", "/", "@", "%40").Replace(url.PathEscape(name))
}

// addProgram adds a program and the modules linked into it.
func (d *document) addProgram(stage *Stage, p Platform, program, version string, top common.ElementID) error {
	info, err := stage.Info(p, program)
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(stage.Programs(p), program))
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	id := d.add(&spdx.Package{
		PackageName: program, PackageVersion: version, PackageComment: "for " + p.String(), PackageFileName: program,
		PackageLicenseDeclared: "MIT", PrimaryPackagePurpose: "APPLICATION",
		PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: fmt.Sprintf("%x", sum.Sum(nil))}},
	}, program, p.OS, p.Arch)
	d.relate(top, common.TypeRelationshipContains, id)
	release := strings.TrimPrefix(info.GoVersion, "go")
	d.relate(id, common.TypeRelationshipStaticLink, d.add(libraryPackage("golang", "stdlib", release, ""), "go-stdlib", release))
	for _, m := range info.Deps {
		d.relate(id, common.TypeRelationshipStaticLink, d.add(libraryPackage("golang", m.Path, m.Version, "go.sum: "+m.Sum), "go", m.Path, m.Version))
	}
	return nil
}

// vendoredLicences is the file with the licences of browser libraries, relative to the root.
const vendoredLicences = "router/http/console/vendor/LICENSES"

// heading matches the line that begins a licence: ---- NAME VERSION, in FILE.
var heading = regexp.MustCompile(`(?m)^---- (\S+) (\S+), in (\S+)$`)

// addBrowserLibraries adds the libraries that polystalk sends to browsers. It is no error if there
// are none.
func (d *document) addBrowserLibraries(src *Source, top common.ElementID) error {
	text, err := os.ReadFile(filepath.Join(src.Root, filepath.FromSlash(vendoredLicences)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	found := heading.FindAllSubmatch(text, -1)
	if len(found) == 0 {
		return fmt.Errorf("%s names no libraryPackage in a line such as ---- NAME VERSION, in FILE", vendoredLicences)
	}
	for _, m := range found {
		name, version := string(m[1]), string(m[2])
		d.relate(top, common.TypeRelationshipContains, d.add(libraryPackage("npm", name, version, "in "+string(m[3])), "npm", name, version))
	}
	return nil
}

// checkBill reads a document back and compares it with d.
func checkBill(text []byte, d *document) error {
	got, err := json.Read(bytes.NewReader(text))
	if err == nil {
		err = spdxlib.ValidateDocument(got)
	}
	if err != nil {
		return fmt.Errorf("the bill of materials cannot be read back: %w", err)
	}
	same := slices.EqualFunc(got.Packages, d.Packages, func(a, b *spdx.Package) bool {
		return a.PackageSPDXIdentifier == b.PackageSPDXIdentifier && a.PackageVersion == b.PackageVersion
	})
	if !same || len(got.Relationships) != len(d.Relationships) {
		return fmt.Errorf("the bill of materials has %d packages and %d relationships when it is read back, not %d and %d",
			len(got.Packages), len(got.Relationships), len(d.Packages), len(d.Relationships))
	}
	return nil
}
