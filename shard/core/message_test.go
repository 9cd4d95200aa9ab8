package core

import "testing"

// The caller's buffer is used again as soon as Keep has returned.
func TestKeptMessageOutlivesTheBuffer(t *testing.T) {
	buf := []byte("tube-namebody bytes")
	for range 3 { // the buffers are pooled
		var m Message
		m.Op = Op{Kind: OpPut, Name: buf[:9], Body: buf[9:]}
		m.Keep()
		copy(buf, "###################")
		if string(m.Op.Name) != "tube-name" || string(m.Op.Body) != "body bytes" {
			t.Fatalf("kept %q and %q", m.Op.Name, m.Op.Body)
		}
		if m.Op.Name = append(m.Op.Name, '!'); string(m.Op.Body) != "body bytes" {
			t.Fatalf("the name grew into the body: %q", m.Op.Body)
		}
		copy(buf, "tube-namebody bytes")
		m.Done()
		if m.Op.Body != nil || m.Op.Name != nil {
			t.Fatalf("%+v is left", m.Op)
		}
	}
}

func TestLargeBodyIsNotCopied(t *testing.T) {
	body := []byte("body")
	m := Message{Op: Op{Kind: OpPut, Large: Large{body}}}
	m.Keep()
	if &m.Op.Large[0][0] != &body[0] {
		t.Error("it was copied")
	}
	m.Op.Name = []byte("name")
	m.Keep()
	if &m.Op.Large[0][0] != &body[0] || string(m.Op.Name) != "name" {
		t.Error("it was copied, or the name is lost")
	}
	m.Done()
}

func TestCountsAddUp(t *testing.T) {
	a := Counts{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	a.Add(&Counts{10, 20, 30, 40, 50, 60, 70, 80, 90, 100})
	if want := (Counts{11, 22, 33, 44, 55, 66, 77, 88, 99, 110}); a != want {
		t.Errorf("%+v, want %+v", a, want)
	}
}
