package gearmantest

import "testing"

// TestGearmand is the player's proof: what was observed of gearmand must still
// be what it does.
func TestGearmand(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	program, version, err := Reference()
	if err != nil {
		t.Skip(err)
	}
	Play(t, StartGearmand(program), Options{Vars: map[string]string{"version": version}}, Tags(Match))
}
