package cluster

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// A Message is from one Machine to another, or to itself once something is on its disk.
// Nobody changes it.
type Message struct{ pb *raftpb.Message }

// To is the node it is for.
func (m Message) To() uint64 { return m.pb.GetTo() }

// From is the node it is from.
func (m Message) From() uint64 { return m.pb.GetFrom() }

// Encode is the message as bytes, which are the caller's.
func (m Message) Encode() ([]byte, error) { return proto.Marshal(m.pb) }

// String is for logs and tests.
func (m Message) String() string {
	p := m.pb
	return fmt.Sprintf("%v %x→%x term %d at %d/%d +%d commit %d", p.GetType(), p.GetFrom(), p.GetTo(),
		p.GetTerm(), p.GetIndex(), p.GetLogTerm(), len(p.GetEntries()), p.GetCommit())
}

// Decode reads what a peer has encoded. b is the message's from then on.
func Decode(b []byte) (Message, error) {
	m := Message{&raftpb.Message{}}
	if err := proto.Unmarshal(b, m.pb); err != nil {
		return Message{}, fmt.Errorf("a message cannot be read: %w", err)
	}
	return m, nil
}

// comesFromPeers reports whether a message is of a kind that other nodes send. What a node
// only says to itself, or hands on to the leader for others, would be a lie.
func (m Message) comesFromPeers() bool {
	switch m.pb.GetType() {
	case raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp,
		raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgSnap, raftpb.MsgTimeoutNow:
		return true
	}
	return false
}

// isFromLeader reports whether only a leader sends such a message.
func (m Message) isFromLeader() bool {
	switch m.pb.GetType() {
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		return true
	}
	return false
}

// asksForVote reports whether a message asks for a vote on the sender's own account: nobody
// has handed over to it.
func (m Message) asksForVote() bool {
	switch m.pb.GetType() {
	case raftpb.MsgVote, raftpb.MsgPreVote:
		return len(m.pb.GetContext()) == 0
	}
	return false
}
