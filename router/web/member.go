package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	wire "polystalk/codec/admin"
)

// unknownMember is the problem of a body that has a member which v has not. The package json
// says only how the member is called; whoever has guessed wants to know where it stands, and
// what could stand there.
func unknownMember(body []byte, v any, name string) error {
	var all any
	json.NewDecoder(bytes.NewReader(body)).Decode(&all) // it is well formed, else that would have been said
	path, known := strangerIn(all, reflect.TypeOf(v), "")
	if path == "" { // in a list
		path, known = name, membersOf(reflect.TypeOf(v))
	}
	slices.Sort(known)
	return wire.Invalid.With(path, "the member is unknown", "leave it out, or give one of "+strings.Join(known, ", "))
}

// strangerIn finds the first member of the value that the type has not, by its path, and the
// names that the type has there. The path is empty if there is none.
func strangerIn(value any, t reflect.Type, at string) (path string, known []string) {
	object, ok := value.(map[string]any)
	if !ok {
		return "", nil
	}
	fields := fieldsOf(t)
	if fields == nil {
		return "", nil
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		i := slices.IndexFunc(fields, func(f reflect.StructField) bool { return strings.EqualFold(memberOf(f), name) }) // as json has it
		if i < 0 {
			return at + name, membersOf(t)
		}
		if path, known := strangerIn(object[name], fields[i].Type, at+name+"."); path != "" {
			return path, known
		}
	}
	return "", nil
}

// fieldsOf are those of a struct that stand in JSON, and nil of what is none.
func fieldsOf(t reflect.Type) (fields []reflect.StructField) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && !f.Anonymous && memberOf(f) != "-" {
			fields = append(fields, f)
		}
	}
	return fields
}

func membersOf(t reflect.Type) (names []string) {
	for _, f := range fieldsOf(t) {
		names = append(names, memberOf(f))
	}
	return names
}

// memberOf is how a field is called in JSON.
func memberOf(f reflect.StructField) string {
	if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
		return name
	}
	return f.Name
}

// wrongType is the problem of a member that is of another type than it should be.
func wrongType(e *json.UnmarshalTypeError) error {
	should := typeName(e.Type)
	return wire.Invalid.With(e.Field, fmt.Sprintf("it is of the type %s, and not %s", e.Value, should), "give "+should)
}

// typeName is what a member should have been, for people.
func typeName(t reflect.Type) string {
	switch name := t.String(); {
	case strings.HasPrefix(name, "uint"):
		return "a whole number from 0 to what " + name[4:] + " bits hold"
	case strings.HasPrefix(name, "int"):
		return "a whole number"
	case name == "[]uint8":
		return "a string in base64"
	case t.Kind() == reflect.Slice:
		return "a list, in brackets, of which each element is " + typeName(t.Elem())
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Map:
		return "an object"
	case t.Kind() == reflect.String:
		return "a string, in double quotes"
	case t.Kind() == reflect.Bool:
		return "true or false"
	default:
		return name
	}
}
