// Package trend keeps the history of figures in memory: of the server, and of a bounded
// number of tubes, for graphs of the last hour and the last day. It is given readings with
// their times, and has no clock of its own.
//
//	Reading ──► Track: an hour of slots of 5 s, a day of slots of 60 s
//	               slot: the largest gauge, the mean rate, the quantiles of its own histogram
//
// A slot in which nothing was read holds nothing, and is shown so: nothing is made up for the
// time in which the machine slept, or in which nobody could look. When a clock is set forward
// that time is such a gap; when it is set back, what was kept for the time that is now still
// to come is dropped. A rate is what was counted between two readings, by the time between
// them that no one can set, if the readings' times have it (see package time).
//
// A value takes four bytes, and a quantile, of which there are as many as a histogram has
// buckets, one: a tube with ten values and four quantiles takes 105 kB with what is kept beside,
// from the start on, so that what a history takes is known.
package trend
