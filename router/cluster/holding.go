package cluster

import (
	"maps"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"polystalk/shard/record"
)

// A holding has nobody learn that a change of the members is committed before the node that leads
// has it on its disk: messages say less until then. The last other voter ends for good once it knows
// that it was removed; without its vote, which the one that leads would still need after a power cut,
// nobody could ever lead again.
//
// Where the change removes the node that leads, which a leader of before has proposed, nothing is
// held back: the others are to know before it goes.
type holding struct {
	index    uint64 // of the last change in the log; zero: there is none that was not applied at the start
	removes  uint64 // the node that goes by it; zero: none
	messages map[uint64]*raftpb.Message
}

// begin looks at what a log has behind the entries that are applied.
func (h *holding) begin(log Log, applied uint64) error {
	h.messages = map[uint64]*raftpb.Message{}
	for lo, hi := max(applied, log.First())+1, log.Last()+1; lo < hi; {
		list, err := log.Read(lo, hi, messageMax)
		if err != nil {
			return err
		}
		h.note(list)
		lo += uint64(len(list))
	}
	return nil
}

// note takes in entries as they come into the log, in place of all that it has from the first of
// them on.
func (h *holding) note(list []Entry) {
	if len(list) > 0 && list[0].Index <= h.index {
		h.index, h.removes = 0, 0
	}
	for i := range list {
		if list[i].Kind == record.Normal {
			continue
		}
		h.index, h.removes = list[i].Index, 0
		if c, _, err := parseChange(list[i].Data); err == nil && c.Kind == Remove { // else it is refused when it is applied
			h.removes = c.Member.ID
		}
	}
}

// take is a message of a leader as it may go out, when so much is applied. What it holds back is
// kept for release: of messages to a node the last, which says most.
func (h *holding) take(msg *raftpb.Message, self, applied uint64) *raftpb.Message {
	if h.index <= applied || h.removes == self || msg.GetCommit() <= applied {
		return msg
	}
	h.messages[msg.GetTo()] = msg
	less := proto.CloneOf(msg)
	less.Commit = new(applied)
	return less
}

// release is what was held back and need not be any more.
func (h *holding) release(applied uint64) (list []Message) {
	if len(h.messages) == 0 || h.index > applied {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(h.messages)) {
		list = append(list, Message{h.messages[id]})
	}
	clear(h.messages)
	return list
}
