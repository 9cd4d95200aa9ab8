// Package admin has the JSON types of the operators' HTTP API. The server and its clients use
// the same types. The package does no input or output, and imports neither shards nor HTTP.
//
// Ids are strings in JSON, because many readers lose digits of numbers above 2^53. Times are
// RFC 3339 in UTC. Durations are numbers of seconds, and sizes numbers of bytes.
package admin
