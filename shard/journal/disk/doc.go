// Package disk is what a journal needs of a file system: a directory of files that can be
// written anywhere and made durable (Disk, Dir), so that tests may bring one that forgets;
// whether a file reserves its bytes (CopyOnWriter); and descriptors that are kept back for it,
// whatever the clients of the process have taken (Handed). It knows nothing of what the files
// hold.
package disk
