package cluster

import (
	"maps"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"polystalk/shard/record"
)

// A holding hides the commit of a change of the members from the others until the leader has the
// change on its disk: until then messages carry a lower commit index. Otherwise the last other voter
// could hear of its removal and end for good. If the leader then loses power, it still needs that
// vote, and no node can lead again.
//
// A change that removes the leader itself, proposed by an earlier leader, is not held back: the
// others must hear of it before the leader ends.
type holding struct {
	index    uint64 // of the last change in the log; zero: all changes are applied
	removes  uint64 // the node that the change removes; zero: none
	messages map[uint64]*raftpb.Message
}

// begin reads the entries of a log that are not applied.
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

// note records entries that are appended to the log. They replace all entries from the first index
// on.
func (h *holding) note(list []Entry) {
	if len(list) > 0 && list[0].Index <= h.index {
		h.index, h.removes = 0, 0
	}
	for i := range list {
		if list[i].Kind == record.Normal {
			continue
		}
		h.index, h.removes = list[i].Index, 0
		if c, _, err := parseChange(list[i].Data); err == nil && c.Kind == Remove { // else applying it fails
			h.removes = c.Member.ID
		}
	}
}

// take returns a leader's message, with its commit index limited to applied while a change is held.
// It keeps the last original for each node, which has the highest commit index, for release.
func (h *holding) take(msg *raftpb.Message, self, applied uint64) *raftpb.Message {
	if h.index <= applied || h.removes == self || msg.GetCommit() <= applied {
		return msg
	}
	h.messages[msg.GetTo()] = msg
	less := proto.CloneOf(msg)
	less.Commit = new(applied)
	return less
}

// release returns the original messages once the change is applied.
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
