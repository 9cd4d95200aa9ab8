package gearman

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"
)

func fuzzSeeds() (seeds []string) {
	for _, h := range hot {
		seeds = append(seeds, string(h.input))
	}
	for typ := Type(0); typ <= NumTypes; typ++ {
		seeds = append(seeds, req(typ, "a\x00b\x001\x002\x003\x004\x005\x00d"), req(typ, ""), res(typ, "x\x00"))
	}
	return append(seeds, "show unique jobs\n", "maxqueue f 1 2 3\r\n", "cancel job H:lap:1\n", "create function \n", " \n", "a b c d e f\n", "\x00bad bad bad ",
		strings.Repeat("x", MaxLine), req(SubmitJob, strings.Repeat("x", MaxArgs+9)), req(1<<31, ""))
}

func FuzzParse(f *testing.F) {
	for _, seed := range fuzzSeeds() {
		f.Add([]byte(seed), uint16(7))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		const limit = 1 << 20
		input := bytes.Clone(b)
		var m Message
		n, fault := Parse(&m, b, limit)
		if n < 0 || n > len(b) || n > MaxHead || m.Size < 0 || m.Size > limit {
			t.Fatalf("Parse used %d of %d bytes, %d more", n, len(b), m.Size)
		}
		if n == 0 && (fault != nil || len(b) >= MaxHead) {
			t.Fatalf("Parse = %d, %v with %d bytes", n, fault, len(b))
		}
		// A packet ends where its header says, whatever is in it.
		if n > 0 && b[0] == 0 && (fault == nil || !fault.Close) && n+m.Size != HeaderSize+int(binary.BigEndian.Uint32(b[8:])) {
			t.Fatalf("Parse = %d, %v, %d more", n, fault, m.Size)
		}
		// With less, either nothing or the same; with more, the same.
		var part Message
		k := int(cut) % (len(b) + 1)
		if partN, partFault := Parse(&part, b[:k], limit); partN != 0 || partFault != nil {
			if partN != n || partFault != fault || !reflect.DeepEqual(part, m) {
				t.Fatalf("Parse of %d bytes = %d, %v, %+v; of all %d, %v, %+v", k, partN, partFault, part, n, fault, m)
			}
		} else if n > 0 && fault == nil && k >= n {
			t.Fatalf("%d bytes used, but not when there were %d", n, k)
		}
		if n > 0 {
			var more Message
			if moreN, moreFault := Parse(&more, append(bytes.Clone(b), "\x00REQ\x00\n"...), limit); moreN != n || moreFault != fault || !reflect.DeepEqual(more, m) {
				t.Fatalf("Parse with more bytes = %d, %v; want %d, %v", moreN, moreFault, n, fault)
			}
		}
		// A reply is a packet or a line that the other side can parse.
		if fault != nil {
			if reply := fault.AppendReply(nil, &m); len(reply) > 0 {
				if k, bad := ParseReply(new(Message), reply, limit); k != len(reply) && bytes.IndexByte(m.Word, '\n') < 0 || bad != nil {
					t.Fatalf("the reply to %q is %q: %d, %v", b, reply, k, bad)
				}
			}
		} else if n > 0 && m.Type != Text && m.Type.HasData() {
			// What a client would write for this packet is this packet.
			if again := AppendRequestHead(nil, m.Type, m.Size, m.Args[:m.N]...); !bytes.Equal(again, b[:n]) {
				t.Fatalf("%q is written again as %q", b[:n], again)
			}
		}
		if !bytes.Equal(b, input) {
			t.Fatal("Parse wrote to its input")
		}
		ParseReply(&m, b, limit)
	})
}
