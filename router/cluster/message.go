package cluster

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// A Message goes from one Machine to another, or back to the same one when its work is done. It is
// immutable.
type Message struct{ pb *raftpb.Message }

// To returns the receiver.
func (m Message) To() uint64 { return m.pb.GetTo() }

// from returns the sender.
func (m Message) from() uint64 { return m.pb.GetFrom() }

// Encode returns the message as bytes, which the caller owns.
func (m Message) Encode() ([]byte, error) { return proto.Marshal(m.pb) }

// Decode decodes a message from Encode. The message keeps b.
func Decode(b []byte) (Message, error) {
	m := Message{&raftpb.Message{}}
	if err := proto.Unmarshal(b, m.pb); err != nil {
		return Message{}, fmt.Errorf("a message cannot be read: %w", err)
	}
	return m, nil
}

// comesFromPeers reports whether other nodes send this type of message. The other types are local to
// a node, or forwarded proposals, which no node sends.
func (m Message) comesFromPeers() bool {
	switch m.pb.GetType() {
	case raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp,
		raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgSnap, raftpb.MsgTimeoutNow:
		return true
	}
	return false
}

// isFromLeader reports whether only a leader sends this type of message.
func (m Message) isFromLeader() bool {
	switch m.pb.GetType() {
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		return true
	}
	return false
}

// asksForVote reports whether a message asks for a vote without a hand-over by the leader.
func (m Message) asksForVote() bool {
	switch m.pb.GetType() {
	case raftpb.MsgVote, raftpb.MsgPreVote:
		return len(m.pb.GetContext()) == 0
	}
	return false
}
