package core

// A Face is what of a tube may be looked at without owning its shard, by whoever
// uses or watches it: its name and handles, which never change, and its best ready
// key. A watch list of a router is one pointer to a Face an entry.
type Face struct {
	name   string
	id     TubeID
	slot   uint16
	mirror Mirror // good once a router has asked for it
}

// Name is the tube's name.
func (f *Face) Name() string { return f.name }

// ID is the tube's handle in its core.
func (f *Face) ID() TubeID { return f.id }

// Slot is the tube's slot, from which its shard follows.
func (f *Face) Slot() uint16 { return f.slot }

// Load is that of the tube's Mirror, which must have been asked for.
func (f *Face) Load() (k Key, ok bool) { return f.mirror.Load() }
