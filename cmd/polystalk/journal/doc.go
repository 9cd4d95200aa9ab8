// Package journal is "polystalk journal": it looks at the directory of a stopped server,
// checks it, rescues what can be read of a damaged one, and writes it as beanstalkd does.
// It never changes what it reads.
//
//	Command → source (lock, survey) → replica (the jobs, where they are needed)
package journal
