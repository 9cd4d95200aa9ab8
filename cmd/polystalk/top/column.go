package top

import (
	"slices"

	"polystalk/cmd/polystalk/client"
)

// A column is one of a view.
type column struct {
	client.Column
	rank  int    // when there is no room for all, those with the smallest are shown
	least int    // how narrow a text is cut, at most; of figures, as wide as they are kept at least
	sort  string // what --sort and the server call it; empty: nothing is sorted by it

	api bool // beanstalkd's protocol does not tell of it
}

// A view is a kind of rows, and how they are shown.
type view struct {
	name    string // what they are called
	rows    string // the member of the documents that has them
	columns []column
	sort    string // the order unasked, with - before it the largest first
	help    string // which orders there are
}

// pick is a column of a list as other commands show it.
func pick(list *client.View, head string, rank, least int, sort string) column {
	for _, c := range slices.Concat(list.Columns, list.Wide) {
		if c.Head == head {
			return column{Column: c, rank: rank, least: least, sort: sort}
		}
	}
	panic("there is no column " + head)
}

func ofTube(head string, rank, least int, sort string) column {
	return pick(&client.TubesView, head, rank, least, sort)
}

func ofConnection(head string, rank, least int, sort string) column {
	return pick(&client.ConnectionsView, head, rank, least, sort)
}

// byAPI is a column of which only the API tells.
func byAPI(c column) column {
	c.api = true
	return c
}

// tubes has the columns of the table of tubes. What the server cannot sort by has no order.
var tubes = &view{
	name: "tubes", rows: "tubes", sort: "-ready",
	help: "name, ready, delayed, reserved, buried, oldest, bytes, using, watching or waiting",
	columns: []column{
		ofTube("TUBE", 0, 12, "name"),
		ofTube("READY", 1, 7, "ready"),
		ofTube("DELAYED", 6, 7, "delayed"),
		ofTube("RESERVED", 3, 8, "reserved"),
		ofTube("BURIED", 2, 6, "buried"),
		byAPI(ofTube("OLDEST", 4, 6, "oldest")),
		ofTube("PUT/S", 7, 7, ""),
		ofTube("DELETE/S", 8, 8, ""),
		byAPI(ofTube("WAIT-P99", 10, 8, "")),
		byAPI(ofTube("RUN-P99", 11, 7, "")),
		ofTube("WAITING", 5, 7, "waiting"),
		ofTube("PAUSED", 9, 6, ""),
		byAPI(ofTube("BYTES", 12, 8, "bytes")),
		byAPI(ofTube("RESERVE/S", 13, 9, "")),
		byAPI(ofTube("TIMEOUT/S", 14, 9, "")),
		ofTube("WATCHING", 15, 8, "watching"),
		ofTube("USING", 16, 5, "using"),
	},
}

// connections has the columns of the table of connections. All are sorted here: the server
// lists them in the order in which they came.
var connections = &view{
	name: "connections", rows: "connections", sort: "-holds",
	help: "id, peer, protocol, state, open, holds, for, last, ago, waits, received, sent or unsent",
	columns: []column{
		ofConnection("ID", 5, 5, "id"),
		ofConnection("PEER", 0, 15, "peer"),
		ofConnection("PROTOCOL", 8, 10, "protocol"),
		ofConnection("STATE", 2, 7, "state"),
		ofConnection("OPEN", 7, 6, "open"),
		ofConnection("HOLDS", 1, 5, "holds"),
		ofConnection("FOR", 3, 6, "for"),
		ofConnection("USES", 6, 8, ""),
		ofConnection("WATCHES", 4, 8, ""),
		ofConnection("LAST", 9, 12, "last"),
		ofConnection("AGO", 10, 6, "ago"),
		ofConnection("WAITS", 11, 6, "waits"),
		ofConnection("CLIENT", 12, 8, ""),
		ofConnection("RECEIVED", 13, 8, "received"),
		ofConnection("SENT", 14, 8, "sent"),
		ofConnection("UNSENT", 15, 8, "unsent"),
	},
}

// onlyPolystalkd are the columns, and more, of which beanstalkd's protocol does not tell.
const onlyPolystalkd = "polystalkd's --http has more: OLDEST, P99, BYTES, RESERVE/S, TIMEOUT/S, --conns"

// shown are the columns of which a server tells; whole: it tells of all.
func (v *view) shown(whole bool) []column {
	return slices.DeleteFunc(slices.Clone(v.columns), func(c column) bool { return c.api && !whole })
}

// sorts reports whether there is such an order of the view.
func (v *view) sorts(sort string) bool {
	by, down := cutDown(sort)
	for _, c := range v.columns {
		if c.sort == by && by != "" {
			return by != "name" || !down // as the server has it
		}
	}
	return false
}

// cutDown is what is sorted by, and whether the largest comes first.
func cutDown(sort string) (by string, down bool) {
	if len(sort) > 0 && sort[0] == '-' {
		return sort[1:], true
	}
	return sort, false
}
