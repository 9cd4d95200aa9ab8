package conversation

import "testing"

// TestMalformedLinesSettle keeps the list honest: each line's replies end where
// its markers say, and a server agrees with itself.
func TestMalformedLinesSettle(t *testing.T) {
	program, unquoted := reference(t)
	var servers [2]*Server
	for i := range servers {
		s, err := StartServer(program)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		servers[i] = s
	}
	played, differences, err := CompareMalformed(servers[0].Address, servers[1].Address, unquoted)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		t.Error(d)
	}
	if played < 1400 {
		t.Errorf("only %d lines were played", played)
	}
}
