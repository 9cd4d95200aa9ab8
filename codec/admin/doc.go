// Package admin holds the values of the operators' HTTP API as they stand in JSON: the
// server writes them, and a client reads them with the same types. It does no input or
// output, and knows neither shards nor HTTP.
//
// Ids are strings in JSON: a number above 2^53 loses digits in most readers. Times are RFC
// 3339 in UTC; durations are seconds, as numbers, and sizes bytes, as their names say.
package admin
