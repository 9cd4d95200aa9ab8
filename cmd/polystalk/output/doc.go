// Package output shows documents to people and to scripts: as a table, as JSON, as names, or
// what an expression of jq makes of them.
//
// A document is JSON as polystalkd's API has it. A View says which of its members are
// columns; one that is not there, since the server cannot tell it, is a hyphen. Nothing that
// a server says gets to a terminal with a control character in it.
package output
