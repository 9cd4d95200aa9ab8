// Package directory is what operators do with the directory of one node of a cluster while no
// process serves on it, or without the cluster's help: they make it a server of its own, when
// the majority is lost for good, and they keep a copy of the jobs elsewhere.
//
//	RecoverAlone  a node's directory ─► that of a server that is alone
//	Backup        the stream of package snapshot ─► a new directory of a server that is alone
//
// It knows files and the lock of a directory. RecoverAlone asks the other nodes whether they run.
package directory
