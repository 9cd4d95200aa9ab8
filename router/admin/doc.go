// Package admin is what operators can ask of a server and do with it, without saying how
// they ask: package web serves it by HTTP.
//
//	web ──► Operator ──► direct.Caller ──► shards
//	             ├─────► session.Loop: who is connected, some of them a turn
//	             ├─────► Life: how far the start is, why it is about to end
//	             └─────► Sample: figures of one moment, which all who ask share
//
// Nobody here is an event loop, so all may wait: for a shard, for the journal, for memory.
// What they do to the shards are the operations of the protocols, each a bounded visit, so
// no client is made to wait by them. A change is reported once the journal has
// acknowledged it. What takes several visits that belong together, as to move jobs to another
// tube, runs to its end once it is begun, whoever has stopped waiting for it. Errors are
// *admin.Problem (package codec/admin), each with a remedy.
package admin
