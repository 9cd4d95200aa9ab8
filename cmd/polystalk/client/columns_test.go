package client

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"polystalk/codec/admin"
)

// member returns the type of the struct member at this path; nil: none.
func member(t reflect.Type, path string) reflect.Type {
	name, rest, deeper := strings.Cut(path, ".")
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			if deeper {
				return member(f.Type, rest)
			}
			return f.Type
		}
	}
	return nil
}

func TestColumnsAreMembersOfTheAPI(t *testing.T) {
	for _, tt := range []struct {
		view View
		of   any
	}{
		{ServerView, admin.Server{}}, {TubeView, admin.Tube{}}, {JobView, admin.Job{}}, {PutView, admin.Put{}}, {HealthView, admin.Health{}},
		{ReloadView, admin.Reloaded{}}, {LogLevelView, admin.LogLevel{}}, {TubesView, admin.Tubes{}}, {JobsView, admin.Jobs{}}, {TransfersView, struct {
			Jobs []admin.Transfer `json:"jobs"`
		}{}}, {ConnectionsView, admin.ConnectionList{}}, {OperationsView, admin.Operations{}}, {AuditView, admin.Audit{}}, {ClusterView, admin.Cluster{}},
	} {
		row := reflect.TypeOf(tt.of)
		if tt.view.Rows != "" {
			row = member(row, tt.view.Rows)
		}
		for _, c := range slices.Concat(tt.view.Columns, tt.view.Wide, []Column{{Path: tt.view.Name}}) {
			for path := range strings.SplitSeq(c.Path, "|") {
				if path != "" && member(row, path) == nil {
					t.Errorf("%v has no member %s for the column %s", row, path, c.Head)
				}
			}
		}
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
