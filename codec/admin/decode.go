package admin

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"polystalk/codec/tomlfile"
)

// strict are the options of Decode. Line breaks within base64 are allowed, since many encoders
// insert them.
var strict = json.JoinOptions(json.RejectUnknownMembers(true), jsonv1.ParseBytesWithLooseRFC4648(true))

// Decode reads a JSON document into v. The document must be one value of valid Unicode. Each
// member must be known, have the exact name and the right type, and appear once. An error is a
// *Problem.
func Decode(document []byte, v any) error {
	if err := json.Unmarshal(document, v, strict); err != nil {
		return decodeProblem(document, err)
	}
	return nil
}

// decodeProblem turns an error of Decode into the problem that names the member.
func decodeProblem(body []byte, err error) error {
	if bad, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return syntaxProblem(body, bad)
	}
	if bad, ok := errors.AsType[*json.SemanticError](err); ok {
		_, isBase64 := errors.AsType[base64.CorruptInputError](bad.Err)
		switch {
		case bad.Err == json.ErrUnknownName:
			return unknownMember(bad)
		case isBase64 || errors.Is(bad.Err, io.ErrUnexpectedEOF):
			return Invalid.With(memberPath(bad.JSONPointer), "it is not base64", "give the bytes in base64, as `base64` of a shell prints them")
		}
		return wrongType(bad)
	}
	return BadRequest.With("", "it is not JSON", "send one JSON object")
}

// syntaxProblem returns the problem of a document that is not JSON.
func syntaxProblem(body []byte, bad *jsontext.SyntacticError) error {
	field, text := memberPath(bad.JSONPointer), bad.Err.Error()
	at := fmt.Sprintf(" after %d bytes", bad.ByteOffset)
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return BadRequest.With("", "it begins with a byte order mark (EF BB BF)", "send the JSON without it")
	case bad.Err == jsontext.ErrDuplicateName:
		return BadRequest.With(field, "the member is given more than once", "give it once")
	case strings.Contains(text, "UTF-8"):
		return BadRequest.With(field, "there are bytes that are not UTF-8"+at, noText)
	case strings.Contains(text, "surrogate"):
		return BadRequest.With(field, "there is half of a surrogate pair"+at, noText)
	case errors.Is(bad.Err, io.ErrUnexpectedEOF):
		return BadRequest.With(field, "the JSON ends too early", "send one whole JSON object")
	}
	return BadRequest.With(field, "it is not JSON: "+text+at, "send one JSON object")
}

// noText is the remedy for a string that is not valid Unicode.
const noText = "send text as UTF-8; for a job's body of other bytes use body_base64"

// RefuseNull refuses a decoded document that contains null, since no member of the API may be
// null. The error is a *Problem.
func RefuseNull(body []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	for {
		t, err := d.ReadToken()
		if err != nil {
			return nil // the end: the syntax was checked before
		}
		switch at := d.StackPointer(); {
		case t.Kind() != 'n':
		case at == "":
			return Invalid.With("", "it is null, not an object", "send one JSON object")
		default:
			return Invalid.With(memberPath(at), "it is null", "give a value, or omit the member")
		}
	}
}

// RefuseZero refuses a decoded document with a number 0, except of the members in but. So a member
// that is 0 is absent. The error is a *Problem.
func RefuseZero(body []byte, but ...string) error {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	for {
		t, err := d.ReadToken()
		if err != nil {
			return nil // the end: the syntax was checked before
		}
		if at := d.StackPointer(); t.Kind() == '0' && t.Float() == 0 && !slices.Contains(but, at.LastToken()) {
			return Invalid.With(memberPath(at), "it is 0", "give a larger number, or omit the member")
		}
	}
}

// memberPath returns the path of a member: names with dots between them, without list indexes.
func memberPath(p jsontext.Pointer) string {
	var names []string
	for name := range p.Tokens() {
		if _, err := strconv.Atoi(name); err != nil {
			names = append(names, name)
		}
	}
	return strings.Join(names, ".")
}

// unknownMember returns the problem of a member that the type does not have.
func unknownMember(bad *json.SemanticError) error {
	path, name, known := memberPath(bad.JSONPointer), bad.JSONPointer.LastToken(), membersOf(bad.GoType)
	if i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, name) }); i >= 0 {
		return BadRequest.With(path, "the member's name is in another case", "write it as "+known[i])
	}
	slices.Sort(known)
	remedy := "omit it, or give one of " + strings.Join(known, ", ")
	if near := tomlfile.Nearest(name, known); near != "" {
		remedy += "; " + near + " is the nearest name"
	}
	return Invalid.With(path, "the member is unknown", remedy)
}

// membersOf returns the names of a struct's members in JSON.
func membersOf(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" { // else the struct is embedded
			names = append(names, name)
		}
	}
	return names
}

// wrongType returns the problem of a member with a value of the wrong type.
func wrongType(bad *json.SemanticError) error {
	should, is := typeName(bad.GoType), bad.JSONKind.String()
	switch bad.JSONKind {
	case '{':
		is = "object"
	case '[':
		is = "list"
	case '0':
		is = strings.TrimSuffix("number "+string(bad.JSONValue), " ")
		if k := bad.GoType.Kind(); len(bad.JSONValue) == 0 && (k == reflect.Uint64 || k == reflect.Int64) {
			should += ", in double quotes" // JSONValue is empty if the number must be quoted
		}
	}
	return Invalid.With(memberPath(bad.JSONPointer), fmt.Sprintf("it is of the type %s, not %s", is, should), "give "+should)
}

// typeName describes the values of a type in words.
func typeName(t reflect.Type) string {
	switch name := t.String(); {
	case strings.HasPrefix(name, "uint"):
		return "a whole number from 0 to what " + name[4:] + " bits hold"
	case strings.HasPrefix(name, "int"):
		return "a whole number"
	case name == "[]uint8":
		return "a string in base64"
	case t.Kind() == reflect.Slice:
		return "a list in brackets, each element " + typeName(t.Elem())
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Map:
		return "an object"
	case t.Kind() == reflect.String:
		return "a string, in double quotes"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	default:
		return name
	}
}
